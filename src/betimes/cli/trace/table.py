"""The rows of `betimes trace` as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from betimes.cli.trace.rows import SnapshotRow, Traced
from betimes.cli.trace.windows import WindowRow

_MOST = 12
"""How many names a cell shows before it only counts the rest."""

_UNSETTLED, _RELEASED, _REPLAYED, _WARNING = "cyan", "green", "magenta", "bold yellow"
_SNAPSHOT = "dim"


def print_table(page: Sequence[Traced], title: str) -> None:
    """Print a page of rows, and a legend for what occurs in it."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(title, style="italic"),
        title_justify="left",
        collapse_padding=True,
    )
    table.add_column("event", overflow="fold")
    table.add_column("clock", justify="right", overflow="fold")
    table.add_column("slack", justify="right", overflow="fold")
    table.add_column("released", style=_RELEASED, overflow="fold")
    if any(isinstance(traced.row, SnapshotRow) for traced in page):
        table.add_column("back to", style=_REPLAYED, overflow="fold")
    table.add_column("replayed", style=_REPLAYED, overflow="fold")
    table.add_column("settled", overflow="fold")
    if any(isinstance(traced.row, WindowRow) for traced in page):
        table.add_column("sent", overflow="fold")
        table.add_column("windows", overflow="fold")
    else:
        table.add_column("buffer", overflow="fold")
    for traced in page:
        row = traced.row
        table.add_row(
            _event(traced),
            "-" if row.clock is None else str(row.clock),
            str(row.slack),
            _list(row.released),
            *([Text(row.snapshot or "")] if isinstance(row, SnapshotRow) else []),
            _list(row.replayed),
            _list(row.settled),
            *(_windows(row) if isinstance(row, WindowRow) else [_buffer(traced)]),
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(_legend(page))


def _event(traced: Traced) -> Text:
    if traced.row.event is None:
        return Text("(end)", style="italic")
    text = Text(traced.row.event, style="bold")
    if traced.row.late:
        text.append(" late", style=_WARNING)
    if traced.aside:
        text.append(" aside", style=_WARNING)
    if traced.rejected:
        text.append(f" rejects {' '.join(traced.rejected)}", style=_WARNING)
    return text


def _list(names: Sequence[str], snapshots: Sequence[str] = ()) -> Text:
    """Names, each after the snapshot that was taken before its event, if there are snapshots."""
    before = [f"{snapshot} " for snapshot in snapshots] or [""] * len(names)
    shown = [
        Text.assemble((snapshot, _SNAPSHOT), event)
        for snapshot, event in zip(before[:_MOST], names[:_MOST], strict=True)
    ]
    if len(names) > _MOST:
        shown.append(Text(f"… {len(names) - _MOST} more"))
    return Text(" ").join(shown)


def _buffer(traced: Traced) -> Text:
    """The buffer, with its released but unsettled part in parentheses."""
    row, split = traced.row, traced.unsettled
    held = _list(row.buffer[split:])
    if not split:
        return held
    snapshots = row.snapshots if isinstance(row, SnapshotRow) else ()
    unsettled = _list(row.buffer[:split], snapshots)
    unsettled = Text.assemble("(", unsettled, ")", style=_UNSETTLED)
    return Text(" ").join((unsettled, held)) if held else unsettled


def _windows(row: WindowRow) -> list[Text]:
    """What the splitter sends, one instance per line, and its windows, one per line."""
    sent = [f"{number}: {', '.join(messages)}" for number, messages in row.sent.items()]
    return [Text("\n".join(sent), style=_SNAPSHOT), Text("\n".join(row.windows))]


def _legend(page: Sequence[Traced]) -> Text:
    parts = [("released", _RELEASED, "handed on")]
    if any(traced.row.replayed for traced in page):
        parts.append(("replayed", _REPLAYED, "handed on again, in the right order"))
    parts.append(("settled", "", "final"))
    if any(isinstance(traced.row, WindowRow) for traced in page):
        parts.append(("3@0", "", "window 3, at instance 0, with its events, the newest first"))
    elif any(traced.unsettled for traced in page):
        parts.append(("(…)", _UNSETTLED, "released, not settled"))
    if any(isinstance(traced.row, SnapshotRow) and traced.row.snapshots for traced in page):
        parts.append(("s2", _SNAPSHOT, "the detector's state before the event of time 2"))
    if any(traced.row.late for traced in page):
        parts.append(("late", _WARNING, "something later had settled"))
    if any(traced.aside for traced in page):
        parts.append(("aside", _WARNING, "too far ahead to be believed yet (--max-skew)"))
    legend = Text()
    for word, style, meaning in parts:
        legend.append(" · " if legend else "")
        legend.append(word, style=style)
        legend.append(f": {meaning}", style="dim")
    return legend
