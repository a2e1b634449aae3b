"""Changes for people: a table that grows with what was found, confirmed and taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from betimes.model import readable

_LOOK = {"insert": ("+", "green"), "confirm": ("=", "blue"), "delete": ("-", "red")}
MOST_ROWS = 20
SHOWN = ("slot", "seq", "change_type", "status", "type", "ts", "detected_at", "payload", "cause")
"""The columns that it needs."""


class Screen:
    """Shows the changes of each micro-batch, newest last, and how many there have been."""

    def __init__(self, names: Mapping[str, str], console: Console) -> None:
        self._names = names
        self._console = console
        self._counts: Counter[str] = Counter()

    def show(self, changes: DataFrame, batch: int) -> None:
        original = {new: old for old, new in self._names.items()}
        rows = [
            {original.get(name, name): value for name, value in row.asDict().items()}
            for row in changes.collect()
        ]
        rows.sort(key=lambda row: (row["slot"], row["seq"]))
        self._counts.update(row["change_type"] for row in rows)
        if not rows:
            return
        table = Table(title=f"batch {batch}", title_justify="left", box=None, expand=True)
        for name in ("", "status", "type", "ts", "after"):
            table.add_column(name, no_wrap=True)
        # What was found is what people look for, so it gets the room that is left.
        table.add_column("payload", overflow="fold", ratio=3, min_width=24)
        table.add_column("cause", overflow="fold", ratio=1, min_width=12)
        for row in rows[-MOST_ROWS:]:
            sign, style = _LOOK[row["change_type"]]
            known = row["detected_at"] is not None and row["ts"] is not None
            after = readable(max(0, row["detected_at"] - row["ts"])) if known else ""
            table.add_row(
                sign, row["status"], row["type"], _text(row["ts"]), after, row["payload"],
                row["cause"], style=style,
            )  # fmt: skip
        self._console.print(table)
        hidden = len(rows) - MOST_ROWS
        more = f"{hidden} more in this batch; " if hidden > 0 else ""
        totals = ", ".join(f"{n} {kind}" for kind, n in sorted(self._counts.items()))
        self._console.print(f"{more}so far {totals}", style="dim")


def _text(value: object) -> str:
    """In a rejected row, any value can be missing."""
    return "" if value is None else str(value)
