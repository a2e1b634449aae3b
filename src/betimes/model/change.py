"""Changes: the rows that an engine returns, and what it means for two results to be equal.

Folding changes (`insert` = +1, `delete` = -1, `confirm` = 0) gives the current result. A row with
status `final` is never taken back, unless a late event is repaired; then `cause` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal

import msgspec
import pyarrow as pa

from betimes.model.duration import readable
from betimes.model.event import Event

ChangeType = Literal["insert", "confirm", "delete"]
Status = Literal["provisional", "final"]

LATE = "late"
"""Type of the change that reports an event that arrived after its place had settled."""
REJECTED = "rejected"
"""Type of the change that reports a clock event that was implausibly far ahead."""

_ENCODER = msgspec.json.Encoder(enc_hook=lambda v: v.tolist() if hasattr(v, "tolist") else repr(v))
_SORTED = msgspec.json.Encoder(enc_hook=_ENCODER.enc_hook, order="sorted")


class Change(msgspec.Struct, frozen=True, gc=False):
    """One row of output: a detected event was found, confirmed, or taken back."""

    change_type: ChangeType
    status: Status
    match_id: str
    """The same for an insert, its confirmation and its delete; the same after a restart."""
    seq: int
    type: str
    ts: int
    detected_at: int
    """The detector's clock when the event was made."""
    slack: int
    """The detector's slack at that time."""
    payload: dict[str, Any]
    detector: str
    cause: str
    """For an insert, the event that completed it; for a delete, the event that undid it."""

    @property
    def event(self) -> Event:
        return Event(self.type, self.ts, self.payload)

    def __repr__(self) -> str:
        shown = {name: repr(getattr(self, name)) for name in self.__struct_fields__}
        shown["slack"] = readable(self.slack)
        return f"Change({', '.join(f'{name}={text}' for name, text in shown.items())})"


class ChangeBatch(Sequence[Change]):
    """Changes in order of `seq`. Iterate over rows, or call `to_arrow()` for columns."""

    def __init__(self, rows: list[Change]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: Any) -> Any:
        return ChangeBatch(self._rows[row]) if isinstance(row, slice) else self._rows[row]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return "ChangeBatch(empty)"
        kinds = Counter(change.change_type for change in self._rows)
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        return f"ChangeBatch({len(self):,} change{'s' if len(self) > 1 else ''}: {counts})"

    def to_arrow(self) -> pa.Table:
        """One column per field of `Change`; the payload is JSON, as its fields differ by type."""
        columns = {name: [*map(get, self._rows)] for name, get in _GETTERS.items()}
        columns["payload"] = _ENCODER.encode_lines(columns["payload"]).decode().split("\n")[:-1]
        return pa.table(columns, schema=_SCHEMA)


_GETTERS = {name: attrgetter(name) for name in Change.__struct_fields__}
_TEXT, _NUMBER = pa.string(), pa.int64()
_SCHEMA = pa.schema(
    [
        pa.field(name, _NUMBER if name in ("seq", "ts", "detected_at", "slack") else _TEXT)
        for name in Change.__struct_fields__
    ]
)


def fold(changes: Iterable[Change]) -> Counter[tuple[str, int, str]]:
    """The current result as a multiset of (type, ts, payload), on which two runs must agree.

    >>> kick = Change("insert", "final", "m1", 0, "hit", 7, 9, 2, {"p": 1}, "Hits", "ball at 7")
    >>> fold([kick])
    Counter({('hit', 7, '{"p":1}'): 1})
    """
    result: Counter[tuple[str, int, str]] = Counter()
    weight = {"insert": 1, "delete": -1, "confirm": 0}
    for change in changes:
        if change.type not in (LATE, REJECTED):
            result[content(change.event)] += weight[change.change_type]
    return +result if all(n >= 0 for n in result.values()) else result


def content(event: Event) -> tuple[str, int, str]:
    """The content of an event, in a form that can be compared and hashed."""
    return event.type, event.ts, _SORTED.encode(event.payload).decode()
