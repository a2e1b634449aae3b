"""Calling detectors, and saying what went wrong when they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from betimes.engine.hierarchy import Node
from betimes.model.batch import EventBatch
from betimes.model.detector import DetectorError
from betimes.model.event import Event

Made = tuple[int, Event]
"""Number of the event that was handled, event that the detector made."""


class DetectorFailed(DetectorError):
    """A detector raised, or made what it must not."""


class Runner:
    """Hands events to a detector of any kind and collects what it makes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._emits = frozenset(node.emits)
        self._batch = node.maker.kind == "batch"

    def method(self, detector: Any) -> Any:
        """What is called for an event (or a batch of them)."""
        if self.node.maker.kind == "function":
            return detector
        return detector.on_batch if self._batch else detector.on_event

    def run(self, method: Any, events: Sequence[Event]) -> list[Made]:
        """Hand events of one key to a detector, in order."""
        if self._batch:
            return self._run_batch(method, events)
        made: list[Made] = []
        event = None
        try:
            for number, event in enumerate(events):
                result = method(event)
                if result is not None:
                    if type(result) is Event:
                        made.append((number, result))
                    else:
                        made.extend((number, item) for item in result)
        except Exception as error:
            raise self._failure(error, event, method) from error
        self._check(made)
        return made

    def run_keyed(
        self,
        methods: dict[Any, Any],
        touch: Callable[[Any], Any],
        events: Sequence[Event],
        keys: Sequence[Any],
    ) -> list[Made]:
        """Hand events to the detectors of their keys; `touch` gives the method of a new key."""
        made: list[Made] = []
        event, method = None, None
        try:
            for number, event, key in zip(range(len(events)), events, keys, strict=True):
                method = methods.get(key)
                if method is None:
                    method = methods[key] = touch(key)
                result = method(event)
                if result is not None:
                    if type(result) is Event:
                        made.append((number, result))
                    else:
                        made.extend((number, item) for item in result)
        except DetectorError:
            raise
        except Exception as error:
            raise self._failure(error, event, method) from error
        self._check(made)
        return made

    def _run_batch(self, method: Any, events: Sequence[Event]) -> list[Made]:
        last = len(events) - 1
        try:
            result = method(EventBatch.from_rows(events))
            if result is None:
                return []
            made = [(last, e) for e in ([result] if isinstance(result, Event) else result)]
        except Exception as error:
            raise self._failure(error, events[last], method) from error
        self._check(made)
        return made

    def _check(self, made: Iterable[Made]) -> None:
        """Refuse what is no event, or of a type that was not declared."""
        for _, event in made:
            if type(event) is not Event:
                raise DetectorFailed(
                    f"expected detector {self.node.name!r} to make Event objects, got {event!r}; "
                    "yield bt.Event(type, ts, payload)"
                )
            if event.type not in self._emits:
                raise DetectorFailed(
                    f"detector {self.node.name!r} made a {event.type!r} event at {event.ts}, but "
                    f"declares emits={list(self.node.emits)}; add the type there"
                )
            if type(event.ts) is not int or event.ts < 0:
                raise DetectorFailed(
                    f"detector {self.node.name!r} made a {event.type!r} event with the time "
                    f"{event.ts!r}; expected whole microseconds, 0 or more"
                )

    def _failure(self, error: Exception, event: Event | None, method: Any) -> DetectorFailed:
        detector = getattr(method, "__self__", None)
        state = getattr(detector, "__dict__", detector)
        return DetectorFailed(
            f"detector {self.node.name!r} failed at {event!r}: {type(error).__name__}: {error}; "
            f"its state then: {state!r}"
        )
