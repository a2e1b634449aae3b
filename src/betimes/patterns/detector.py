"""A running pattern: a detector that publishes the matches of a matcher as events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from betimes.model.event import Event
from betimes.patterns.matcher import Match, Matcher
from betimes.patterns.payloads import Shape
from betimes.patterns.steps import PatternError


class PartlyFailed(PatternError):
    """Some of the matches that are due cannot be published."""

    def __init__(self, message: str, made: list[Event]) -> None:
        super().__init__(message)
        self.made = made
        """The others."""


class PatternDetector:
    """What `Pattern.make()` returns: a per-event detector that also follows stream time.

    Even if no event arrives, a partial match may end, or a match may be complete because something
    did not happen. `deadline` is when that is due next. The caller must call `on_time` once stream
    time reaches it and no earlier event is missing.
    """

    def __init__(self, matcher: Matcher, shapes: Mapping[str, tuple[str, Shape]]) -> None:
        """`shapes` has the type and the payload of each kind of match to publish."""
        self._matcher = matcher
        self._shapes = shapes

    def on_event(self, event: Event) -> list[Event] | None:
        """The matches that an event completes, or that time out before it; None if none."""
        matches = self._matcher.on_event(event)
        return self._published(matches) if matches else None

    def on_time(self, ts: int) -> list[Event] | None:
        """The matches that are complete, or time out, at a time without an event."""
        matches = self._matcher.on_time(ts)
        return self._published_apart(matches) if matches else None

    @property
    def deadline(self) -> int | None:
        """When to call `on_time` if no event arrives before; None if never."""
        return self._matcher.deadline

    def snapshot(self) -> Any:
        """The state, as immutable data."""
        return self._matcher.state

    def restore(self, state: Any) -> None:
        """Go back to a state from `snapshot()`."""
        self._matcher.state = state

    def _published_apart(self, matches: Iterable[Match]) -> list[Event] | None:
        """The same where no event is to blame if one of them fails: the others are published."""
        events: list[Event] = []
        failure: Exception | None = None
        for match in matches:
            try:
                events += self._published([match]) or ()
            except Exception as error:  # noqa: BLE001 - raised below
                failure = failure or error
        if failure is not None:
            raise PartlyFailed(str(failure), events) from failure
        return events or None

    def _published(self, matches: Iterable[Match]) -> list[Event] | None:
        events = []
        for match in matches:
            if match.kind in self._shapes:
                type, shape = self._shapes[match.kind]
                events.append(Event(type, match.ts, shape(match.bound, match.ts)))
        return events or None
