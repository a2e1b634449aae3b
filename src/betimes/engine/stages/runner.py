"""Calling detectors, and reporting what went wrong when they fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter, gt, length_hint
from typing import Any, NamedTuple

import msgspec

from betimes.engine.node import Node
from betimes.model.batch import EventBatch
from betimes.model.derived import Derived
from betimes.model.detector import DetectorError, Maker
from betimes.model.event import Event
from betimes.model.unmade import Events

Slice = Events | EventBatch
"""Ordered events of one key; for a per-batch detector, columns."""

PATIENCE = 100_000
"""How often in a row a detector may set a deadline that has already passed."""


class DetectorFailed(DetectorError):
    """A detector raised an error, or made something that it must not make."""


class Due(msgspec.Struct, gc=False):
    """What a detector made because its deadline had passed."""

    ts: int
    event: Event


class Made(NamedTuple):
    """What was made from a slice: row numbers, in order, and the event made at each."""

    rows: list[int]
    events: list[Any]


def listed(result: Any) -> list[Any]:
    """What `on_batch` returned, as a list."""
    if result is None:
        return []
    return [result] if isinstance(result, Event | Derived) else list(result)


class Timed:
    """Calls a detector with deadlines: first time passes, then it gets the event."""

    def __init__(self, detector: Any) -> None:
        self.__self__ = detector
        self.passed = -1
        """The last deadline that has passed."""

    def __call__(self, event: Event) -> list[Event | Due]:
        made: list[Event | Due] = []
        deadline = self.__self__.deadline
        if deadline is not None and deadline <= event.ts:
            made += self.until(event.ts)
        result = self.__self__.on_event(event)
        if result is not None:
            made += [result] if type(result) is Event else result
        return made

    def until(self, ts: int) -> list[Due]:
        """Let time pass up to `ts`."""
        made: list[Due] = []
        detector = self.__self__
        for _ in range(PATIENCE):
            deadline = detector.deadline
            if deadline is None or deadline > ts:
                return made
            self.passed = deadline
            result = detector.on_time(deadline)
            if result is not None:
                events = [result] if type(result) is Event else result
                made += [Due(deadline, event) for event in events]
        raise RuntimeError(
            f"its deadline is still {detector.deadline} after {PATIENCE:,} calls of on_time(); "
            "set it to a later time, or to None"
        )


def _method_of(maker: Maker) -> Callable[[Any], Any]:
    """What finds the function to call in a detector."""
    if maker.kind == "function":
        return lambda detector: detector
    return Timed if maker.timed else attrgetter(f"on_{maker.kind}")


class Runner:
    """Hands events to a detector of any kind, and collects what it makes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._batch = node.maker.kind == "batch"
        self.method = _method_of(node.maker)
        """Returns the function of a detector to call for an event (or for a batch)."""

    def run(self, method: Any, events: Slice) -> Made:
        """Hand ordered events of one key to a detector; return what it makes, in row order."""
        if self._batch:
            batch = events if isinstance(events, EventBatch) else EventBatch.from_rows(events)
            return self._run_batch(method, batch)
        rows: list[int] = []
        made: list[Any] = []
        event = None
        try:
            for number, event in enumerate(events):
                result = method(event)
                if result is not None:
                    if type(result) is not Event:
                        result = list(result)
                        made += result
                        rows += [number] * len(result)
                    else:
                        made.append(result)
                        rows.append(number)
        except Exception as error:
            raise self._failure(error, event, method) from error
        self.check(made)
        return Made(rows, made)

    def run_keyed(self, methods: Mapping[Any, Any], events: Events, keys: Sequence[Any]) -> Made:
        """Hand events to the detectors of their keys, which have these methods."""
        rows: list[int] = []
        made: list[Any] = []
        event, key, count, left = None, None, len(keys), iter(keys)
        try:
            # Few events make anything: only then does their number matter, and the iterator has it.
            for event, key in zip(events, left):  # noqa: B905 - slow
                result = methods[key](event)
                if result is not None:
                    number = count - length_hint(left) - 1
                    if type(result) is not Event:
                        result = list(result)
                        made += result
                        rows += [number] * len(result)
                    else:
                        made.append(result)
                        rows.append(number)
        except Exception as error:
            raise self._failure(error, event, methods[key]) from error
        self.check(made)
        return Made(rows, made)

    def run_until(self, method: Timed, ts: int) -> list[Due]:
        """Tell a detector that time has come to `ts`."""
        try:
            made = method.until(ts)
        except Exception as error:
            raise self._failure(error, Event("time", ts), method) from error
        self.check(made)
        return made

    def _run_batch(self, method: Any, batch: EventBatch) -> Made:
        rows: list[int] = []
        events: list[Any] = []
        try:
            for item in listed(method(batch)):
                if isinstance(item, Derived):
                    rows += item.rows.tolist()
                    events += item.events(batch.ts)
                else:
                    rows.append(len(batch) - 1)
                    events.append(item)
        except Exception as error:
            raise self._failure(error, batch[len(batch) - 1], method) from error
        self.check(events)
        if any(map(gt, rows, rows[1:])):
            order = sorted(range(len(rows)), key=rows.__getitem__)
            rows, events = [rows[n] for n in order], [events[n] for n in order]
        return Made(rows, events)

    def check(self, made: Iterable[Any]) -> None:
        """Refuse anything that is not an event, or whose type was not declared."""
        check(made, self.node.name, self.node.emits)

    def _failure(self, error: Exception, event: Event | None, method: Any) -> DetectorFailed:
        detector = getattr(method, "__self__", None)
        own = getattr(detector, "snapshot", None)
        state = getattr(detector, "__dict__", detector) if own is None else own()
        return DetectorFailed(
            f"detector {self.node.name!r} failed at {event!r}: {type(error).__name__}: {error}; "
            f"its state: {state!r}"
        )


def check(made: Iterable[Any], name: str, emits: Collection[str]) -> None:
    """Refuse anything that is not an event, or whose type was not declared."""
    for item in made:
        event = item.event if type(item) is Due else item
        if type(event) is not Event:
            raise DetectorFailed(
                f"expected detector {name!r} to make Event objects, got {event!r}; "
                "yield bt.Event(type, ts, payload)"
            )
        if event.type not in emits:
            raise DetectorFailed(
                f"detector {name!r} made a {event.type!r} event at {event.ts}, but "
                f"declares emits={list(emits)}; add the type there"
            )
        if type(event.ts) is not int or event.ts < 0:
            raise DetectorFailed(
                f"detector {name!r} made a {event.type!r} event with the time "
                f"{event.ts!r}; expected whole microseconds, 0 or more"
            )
        if not isinstance(event.payload, dict):
            raise DetectorFailed(
                f"detector {name!r} made a {event.type!r} event at {event.ts} with "
                f"the payload {event.payload!r}; expected a dict"
            )
