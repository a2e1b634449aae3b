"""What is done with a window: an object per window, a function of all its events, or aggregates.

To what runs windows they are the same: something that begins with a window, takes its events one by
one, and closes with it. The state of a window is separate from the operator, so that it can be
saved, restored and sent elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pyarrow as pa

from betimes.engine.snapshots.states import Snapshotter
from betimes.model.change import content
from betimes.model.detector import DetectorError, Maker
from betimes.model.errors import OptionError
from betimes.model.event import Event
from betimes.model.identity import fact
from betimes.windows.aggregates import Aggregate
from betimes.windows.cutting import Span

Frame = Literal["arrow", "pandas"]
FRAMES: tuple[Frame, ...] = ("arrow", "pandas")

OWN = ("window.start", "window.end", "window.count", "window.complete")
"""What every result says about its window."""


@dataclass(frozen=True)
class OperatorSpec:
    """What a user gave, and where it was added: everything to make the operator, anywhere."""

    given: Any
    frame: Frame
    emits: tuple[str, ...]
    by: str | None
    name: str

    def operator(self) -> Operator:
        """The operator in its place."""
        given = self.given
        if isinstance(given, Aggregate):
            return OfAggregates(given, self._type, self.by, self.name)
        if is_of_whole(given):
            return OfWhole(given, self.frame, self._type, self.by, self.name)
        return PerWindow(Maker(given), self.name)

    @property
    def _type(self) -> str:
        if len(self.emits) > 1:
            raise OptionError(
                f"expected {self.name!r} to publish one type, as all its rows have one, got "
                f"emits={list(self.emits)}"
            )
        return self.emits[0]


class Operator(Protocol):
    """What is done with the events of a window."""

    once: bool
    """Whether equal events that several windows make count once."""

    def begin(self) -> Any:
        """The state of a window without events."""

    def take(self, state: Any, event: Event, span: Span) -> Iterable[Event]:
        """A window gets an event; what it makes of it."""

    def close(self, state: Any, span: Span) -> Iterable[Event]:
        """A window has ended; what it makes of that."""

    def save(self, state: Any) -> Any:
        """The state as data that does not change any more."""

    def load(self, saved: Any) -> Any:
        """A state from what `save` returned, which can be used again."""


class PerWindow:
    """An object with `on_event`, and maybe `on_close`, for each window."""

    once = True

    def __init__(self, maker: Maker, name: str) -> None:
        self._states = Snapshotter(maker, name)
        self._name = name

    def begin(self) -> Any:
        return self._states.make()

    def take(self, state: Any, event: Event, span: Span) -> Iterable[Event]:
        # Of a window of time, the end is known; any other has come as far as this event.
        return self._within(state.on_event(event), span)

    def close(self, state: Any, span: Span) -> Iterable[Event]:
        on_close = getattr(state, "on_close", None)
        return () if on_close is None else self._within(on_close(span), span)

    def _within(self, result: Any, span: Span) -> Iterable[Event]:
        if result is None:
            return ()
        made = [result] if isinstance(result, Event) else self._listed(result)
        for event in made:
            if isinstance(event, Event):  # what else it is, the engine says
                check_within(event.ts, span, self._name)
                self._check_payload(event)
        return made

    def _check_payload(self, event: Event) -> None:
        """Equal events count once, so they must be comparable."""
        try:
            content(event)
        except TypeError as error:
            raise DetectorError(
                f"expected {self._name!r} to make events whose payloads have text as keys, got "
                f"{event.payload!r}: {error}"
            ) from error

    def _listed(self, result: Any) -> list[Event]:
        if isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
            return list(result)
        raise DetectorError(
            f"expected {self._name!r} to return an event, several events or None, got a "
            f"{type(result).__name__}"
        )

    def save(self, state: Any) -> Any:
        return self._states.take(state)

    def load(self, saved: Any) -> Any:
        return self._states.restore(saved)


class OfWhole:
    """A function of all events of a window, as a table."""

    once = False

    def __init__(
        self, function: Callable[..., Any], frame: Frame, emits: str, by: str | None, name: str
    ) -> None:
        self._function = function
        self._frame = frame
        self._emits = emits
        self._by = by
        self._name = name
        self._wants_window = _parameters(function) == 2

    def begin(self) -> list[Event]:
        return []

    def take(self, state: list[Event], event: Event, span: Span) -> Iterable[Event]:  # noqa: ARG002
        state.append(event)
        return ()

    def close(self, state: list[Event], span: Span) -> Iterator[Event]:
        table: Any = _table(state)
        if self._frame == "pandas":
            table = table.to_pandas()
        result = self._function(table, span) if self._wants_window else self._function(table)
        key = {} if self._by is None else {self._by: state[0].payload.get(self._by)}
        for row in _rows(result, self._name):
            payload: dict[str, Any] = key | row
            said = row.get(self._by or "")
            if self._by in row and said != key[self._by] and said == said:  # it may be no number
                raise DetectorError(
                    f"{self._name!r} returned {self._by}={said!r} for a window of "
                    f"{self._by}={key[self._by]!r}, its key; give that column another name"
                )
            ts = payload.pop("ts", span.end)
            check_within(ts, span, self._name)
            yield result_of(self._emits, ts, payload, span, self._name)

    def save(self, state: list[Event]) -> list[Event]:
        return state.copy()

    def load(self, saved: list[Event]) -> list[Event]:
        return saved.copy()


class OfAggregates:
    """Aggregates: a window remembers numbers, no events."""

    once = False

    def __init__(self, aggregate: Aggregate, emits: str, by: str | None, name: str) -> None:
        self._columns = aggregate.columns
        self._emits = emits
        self._by = by
        self._name = name

    def begin(self) -> list[Any]:
        return [(), *(column.begin() for column in self._columns)]

    def take(self, state: list[Any], event: Event, span: Span) -> Iterable[Event]:  # noqa: ARG002
        if self._by is not None and not state[0]:
            state[0] = (event.payload.get(self._by),)
        for column, mine in zip(self._columns, state[1:], strict=True):
            column.take(mine, column.value(event))
        return ()

    def close(self, state: list[Any], span: Span) -> Iterable[Event]:
        payload = {} if self._by is None else {self._by: state[0][0]}
        for column, mine in zip(self._columns, state[1:], strict=True):
            payload[column.name] = column.result(mine)
        return [result_of(self._emits, span.end, payload, span, self._name)]

    def save(self, state: list[Any]) -> list[Any]:
        key, *columns = state
        return [key, *(list(mine) for mine in columns)]

    load = save


def check_within(ts: Any, span: Span, name: str) -> None:
    """What a window makes lies within it."""
    if isinstance(ts, int) and not span.start <= ts <= span.end:
        raise DetectorError(
            f"expected {name!r} to date what it makes within its window, which goes from "
            f"{span.start} to {span.end}, got ts={ts}"
        )


def result_of(type: str, ts: int, payload: dict[str, Any], span: Span, name: str) -> Event:
    """The result of a window: it says which window."""
    for own in OWN:
        if own in payload:
            raise DetectorError(
                f"{name!r} returned a column {own!r}, which windows have anyway; rename it"
            )
    about = (span.start, span.end, span.count, span.complete)
    return Event(type, ts, payload | dict(zip(OWN, about, strict=True)))


def _table(events: list[Event]) -> pa.Table:
    """Events as a table that has every column which some of them have."""
    columns: dict[str, list[Any]] = {
        "ts": [event.ts for event in events],
        "type": [event.type for event in events],
    }
    for name in dict.fromkeys(name for event in events for name in event.payload):
        if name not in columns:  # the event's own time and type come first
            columns[name] = [event.payload.get(name) for event in events]
    return pa.table(columns)


def _rows(result: Any, name: str) -> list[dict[str, Any]]:
    """What a function of a window returned, as rows."""
    if result is None:
        return []
    if isinstance(result, dict):
        return [result]
    if isinstance(result, pa.Table | pa.RecordBatch):
        return result.to_pylist()
    if hasattr(result, "iloc") and hasattr(result, "columns"):
        return pa.Table.from_pandas(result, preserve_index=False).to_pylist()
    if hasattr(result, "columns") and hasattr(result, "__arrow_c_stream__"):
        return pa.table(result).to_pylist()
    if isinstance(result, list | tuple) and all(isinstance(row, dict) for row in result):
        return list(result)
    raise DetectorError(
        f"expected {name!r} to return a dictionary, a list of dictionaries, an Arrow table, a "
        f"pandas or polars frame or None, got a {type(result).__name__}"
    )


def _parameters(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some of Python's own functions do not tell
        return -1
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)


def is_of_whole(operator: Any) -> bool:
    """Whether it is a function of a whole window, not something that makes objects."""
    if inspect.isclass(operator) or hasattr(operator, "on_event"):
        return False
    return callable(operator) and _parameters(operator) in (1, 2)


def checked(operator: Any) -> None:
    """Refuse what is no operator."""
    if isinstance(operator, Aggregate) or is_of_whole(operator):
        return
    if not isinstance(operator, type) and not hasattr(operator, "on_event"):
        made = operator() if callable(operator) and not _parameters(operator) else None
        if hasattr(made, "on_event"):
            return
    elif hasattr(operator, "on_event"):
        return
    raise OptionError(
        "expected an operator for windows: a class or an object with on_event(event), a function "
        f"of a table, or aggregate(...), got {operator!r}"
    )


def facts_of(operator: Any) -> dict[str, str]:
    """What is done, in words."""
    if isinstance(operator, Aggregate):
        return operator.facts()
    return {"function": fact(operator)} if is_of_whole(operator) else Maker(operator).facts()
