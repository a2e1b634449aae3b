"""Changes: the rows that an engine returns, and what it means for two results to be equal.

Folding changes (`insert` = +1, `delete` = -1, `confirm` = 0) gives the current result. A row with
status `final` is never taken back, unless a late event is repaired; then `cause` says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import astuple

from betimes.model.arrays import ArrayBatch, Arrays
from betimes.model.batch import EventBatch, Payload
from betimes.model.coded import Coded
from betimes.model.duration import readable
from betimes.model.errors import OptionError
from betimes.model.event import Event
from betimes.model.hints import known_options
from betimes.model.message import MOST, Messages
from betimes.model.spelling import text_of
from betimes.model.texts import json_of, plain, struct_of

Ints = npt.NDArray[np.int64]

ChangeType = Literal["insert", "confirm", "delete"]
Status = Literal["provisional", "final"]

LATE = "late"
"""Type of the change that reports an event that arrived after its place had settled."""
REJECTED = "rejected"
"""Type of the change that reports a clock event that was implausibly far ahead."""

THE_END = 2**63 - 1
"""When time has moved past everything, because the stream has ended."""

_SORTED = msgspec.json.Encoder(enc_hook=plain, order="sorted")


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


def spelled_cause(type: str, ts: int) -> str:
    """What completed a match, in words: an event, or time, which comes to its end with the stream.

    >>> spelled_cause("A", 5), spelled_cause("time", THE_END)
    ('A at 5', 'the end of the stream')
    """
    return "the end of the stream" if ts == THE_END else f"{type} at {ts}"


class ChangePart(NamedTuple):
    """Changes of one kind by one detector, as columns."""

    kind: ChangeType
    final: npt.NDArray[np.bool_] | None
    """Which are final; None if all are."""
    ids: list[str] | pa.Array[Any]
    seq: range
    events: EventBatch
    detected_at: Ints
    slack: Ints
    detector: str
    causes: list[str] | tuple[Coded, Ints]
    """In words, or the types and times of the events that completed them."""

    def spelled_causes(self) -> list[str]:
        if isinstance(self.causes, list):
            return self.causes
        names, times = self.causes
        return [*map(spelled_cause, names.spelled(), times.tolist())]

    def statuses(self) -> list[Status]:
        if self.final is None:
            return ["final"] * len(self.ids)
        return ["final" if sure else "provisional" for sure in self.final.tolist()]

    def rows(self) -> list[Change]:
        """One by one."""
        count, events = len(self.ids), self.events
        payload = events.dictionaries() if isinstance(events, ArrayBatch) else events.payload
        if payload is None:
            payload = [{} for _ in range(count)]
        elif isinstance(payload, pa.Table):
            payload = payload.to_pylist()
        ids: list[Any] = self.ids if isinstance(self.ids, list) else self.ids.to_pylist()
        return [*map(
            Change, repeat(self.kind), self.statuses(), ids, self.seq, events.type_names(),
            events.ts.tolist(), self.detected_at.tolist(), self.slack.tolist(), payload,
            repeat(self.detector), self.spelled_causes(),
        )]  # fmt: skip

    def id_column(self) -> pa.Array[Any]:
        return pa.array(self.ids, _TEXT) if isinstance(self.ids, list) else self.ids


Parts = list[ChangePart | list[Change]]
"""Changes as they were made: columns, or rows."""


@known_options
class ChangeBatch(Sequence[Change]):
    """Changes in order of `seq`. Iterate over rows, or call `to_arrow()` for columns."""

    def __init__(self, rows: list[Change]) -> None:
        self.parts: Parts = [rows] if rows else []
        self._rows: list[Change] | None = rows

    @classmethod
    def of(cls, parts: Parts) -> ChangeBatch:
        """Changes as they were made; they become rows or columns when somebody asks for them."""
        self = cls([])
        if parts:
            self._rows, self.parts = None, parts
        return self

    def _all(self) -> list[Change]:
        if self._rows is None:
            self._rows = []
            for part in self.parts:
                self._rows += part if isinstance(part, list) else part.rows()
        return self._rows

    def __len__(self) -> int:
        if self._rows is None:
            return sum(map(_count, self.parts))
        return len(self._rows)

    def __getitem__(self, row: Any) -> Any:
        rows = self._all()
        return ChangeBatch(rows[row]) if isinstance(row, slice) else rows[row]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._all())

    def __repr__(self) -> str:
        if not len(self):
            return "ChangeBatch(empty)"
        kinds = Counter(change.change_type for change in self)
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        return f"ChangeBatch({len(self):,} change{'s' if len(self) > 1 else ''}: {counts})"

    def to_arrow(self, payload: Literal["columns", "json"] = "columns") -> pa.Table:
        """One column per field of `Change`.

        The payload is a struct with a column for each field if all changes have the same fields,
        each with one kind of value; otherwise, and if there are no changes, it is JSON text. So its
        type can differ from batch to batch; with `payload="json"`, it is always JSON text.
        """
        if payload not in ("columns", "json"):
            raise OptionError(f"expected payload to be columns or json, got payload={payload!r}")
        if not len(self):
            return _no_rows()
        runs = _runs(self.parts)
        if payload == "columns" and len(runs) == 1 and isinstance(runs[0], list):
            few = _at_once(runs[0])
            if few is not None:
                return few
        made: list[Any] = []
        if payload == "columns" and len({*map(_fields, self.parts)}) == 1:
            made = [_together(run, _struct) for run in runs]
        if not made or any(each is None or each.type != made[0].type for each in made):
            made = [_together(run, _json) for run in runs]
        schema = _SCHEMA.set(_PAYLOAD, pa.field("payload", made[0].type))
        batches = []
        for run, column in zip(runs, made, strict=True):
            columns = _columns(run) if isinstance(run, list) else _columns_of(run)
            columns.insert(_PAYLOAD, column)
            batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        return pa.Table.from_batches(batches)


@lru_cache(maxsize=1)
def _no_rows() -> pa.Table:
    """A table without rows; making one takes longer than a table of a few rows."""
    return _SCHEMA.empty_table()


def _count(part: ChangePart | list[Change]) -> int:
    return len(part if isinstance(part, list) else part.ids)


def _payload(part: ChangePart | list[Change]) -> Payload | None:
    if isinstance(part, list):
        return [change.payload for change in part]
    return part.events.payload


def _columns_or_rows(part: ChangePart | list[Change]) -> Payload | Arrays | None:
    if isinstance(part, ChangePart) and isinstance(part.events, ArrayBatch):
        return part.events.arrays
    return _payload(part)


def _fields(part: ChangePart | list[Change]) -> tuple[Any, ...]:
    """The names of the fields of the first payload."""
    found = _columns_or_rows(part[:1] if isinstance(part, list) else part)
    if isinstance(found, pa.Table):
        return (*found.column_names,)
    return (*(found[0] if isinstance(found, Sequence) else found or ()),)


_Run = list[Change] | tuple[ChangePart, ...]


def _runs(parts: Parts) -> list[_Run]:
    """Parts that follow each other, as rows or columns; few become rows: columns have a price."""
    found: list[_Run] = []
    for as_rows, group in groupby(parts, lambda part: isinstance(part, list)):
        each = [*group]
        if not as_rows and sum(map(_count, each)) >= _MANY:
            found.append(tuple(part for part in each if isinstance(part, ChangePart)))
            continue
        rows = [row for part in each for row in (part if isinstance(part, list) else part.rows())]
        if found and isinstance(found[-1], list):
            found[-1] += rows
        else:
            found.append(rows)
    return found


def _together(
    run: _Run, column: Callable[[ChangePart | list[Change]], pa.Array[Any] | None]
) -> pa.Array[Any] | None:
    """A column of a run; None if its parts do not have the same."""
    if isinstance(run, list):
        return column(run)
    made = [each for part in run if (each := column(part)) is not None]
    if len(made) < len(run) or any(each.type != made[0].type for each in made):
        return None
    return made[0] if len(made) == 1 else pa.concat_arrays(made)


def _struct(part: ChangePart | list[Change]) -> pa.Array[Any] | None:
    return struct_of(_payload(part))


def _json(part: ChangePart | list[Change]) -> pa.Array[Any]:
    return json_of(_columns_or_rows(part), _count(part))


def _at_once(rows: list[Change]) -> pa.Table | None:
    """Few rows as one message; None if their payloads do not look alike."""
    if len(rows) >= _MANY:
        return None
    payloads = [row.payload for row in rows]
    shapes = {((*each,), (*map(type, each.values()),)) for each in payloads}
    messages = _messages(*shapes.pop()) if len(shapes) == 1 else None
    if messages is None:
        return None
    columns: list[Any] = [*zip(*map(astuple, rows), strict=True)]
    columns[_PAYLOAD : _PAYLOAD + 1] = zip(*(payload.values() for payload in payloads), strict=True)
    return messages.table(columns)


@lru_cache(maxsize=256)
def _messages(names: tuple[Any, ...], kinds: tuple[type, ...]) -> Messages | None:
    """What writes rows whose payloads have these fields; None if Arrow has to look at values."""
    if not names or not all(type(name) is str for name in names):
        return None
    if not _KINDS.keys() >= set(kinds):
        return None
    try:
        fields = [pa.field(name, _KINDS[kind]) for name, kind in zip(names, kinds, strict=True)]
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can spell it, Arrow cannot
        return None
    return Messages(_SCHEMA.set(_PAYLOAD, pa.field("payload", pa.struct(fields))))


def _columns(rows: list[Change]) -> list[pa.Array[Any]]:
    """One column per field of `Change`, without the payload."""
    return [pa.array([*map(get, rows)], kind) for get, kind in _GETTERS]


def _columns_of(parts: tuple[ChangePart, ...]) -> list[pa.Array[Any]]:
    """The same for changes that are columns already."""
    counts = [len(part.ids) for part in parts]
    which = np.arange(len(parts)).repeat(counts)
    open_ = [np.zeros(n, bool) if p.final is None else ~p.final for p, n in zip(parts, counts)]  # noqa: B905
    types, names = _side_by_side([(p.events.codes, p.events.types) for p in parts])
    seq = [np.arange(part.seq.start, part.seq.stop) for part in parts]

    def numbers(columns: list[Ints]) -> pa.Array[Any]:
        return pa.array(np.concatenate(columns), _NUMBER)

    return [
        text_of(which, tuple(part.kind for part in parts)),
        text_of(np.concatenate(open_).astype(np.int64), ("final", "provisional")),
        pa.concat_arrays([part.id_column() for part in parts]),
        numbers(seq),
        text_of(types, names),
        numbers([part.events.ts for part in parts]),
        numbers([part.detected_at for part in parts]),
        numbers([part.slack for part in parts]),
        text_of(which, tuple(part.detector for part in parts)),
        _causes(parts),
    ]


def _side_by_side(
    parts: Sequence[tuple[npt.NDArray[Any], Sequence[str]]],
) -> tuple[Ints, tuple[str, ...]]:
    """Columns of names as codes, one after the other: the codes of all, and their names."""
    firsts = accumulate((len(names) for _, names in parts), initial=0)
    codes = [codes + first for (codes, _), first in zip(parts, firsts, strict=False)]
    whole = np.concatenate(codes, dtype=np.int64)
    return whole, tuple(name for _, names in parts for name in names)


def _causes(parts: tuple[ChangePart, ...]) -> pa.Array[Any]:
    told = [part.causes for part in parts if isinstance(part.causes, tuple)]
    if len(told) == len(parts) and all(times.max() < THE_END for _, times in told):
        codes, names = _side_by_side([(names.codes, names.values) for names, _ in told])
        times = np.concatenate([times for _, times in told])
        return text_of(codes, tuple(f"{name} at " for name in names), times[np.newaxis], ("",))
    return pa.array([cause for part in parts for cause in part.spelled_causes()], _TEXT)


_TEXT, _NUMBER = pa.string(), pa.int64()
_KINDS = {int: _NUMBER, float: pa.float64(), str: _TEXT, bool: pa.bool_()}
"""What Arrow takes Python's values for."""
_MANY = MOST + 1
"""From this many changes on, columns are faster than rows."""
_SCHEMA = pa.schema(
    [
        pa.field(name, _NUMBER if name in ("seq", "ts", "detected_at", "slack") else _TEXT)
        for name in Change.__struct_fields__
    ]
)
_PAYLOAD = Change.__struct_fields__.index("payload")
_GETTERS = [(attrgetter(field.name), field.type) for field in _SCHEMA if field.name != "payload"]


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
    try:
        return event.type, event.ts, _SORTED.encode(event.payload).decode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return event.type, event.ts, json.dumps(event.payload, default=plain, sort_keys=True)
