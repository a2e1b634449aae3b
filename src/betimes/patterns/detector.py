"""A pattern at work: a detector that publishes the matches of a matcher as events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from betimes.model.event import Event
from betimes.patterns.matcher import Match, Matcher
from betimes.patterns.payloads import Shape


class PatternDetector:
    """What `Pattern.make()` makes: a detector per event, which also wants to know about time.

    When nothing comes, a partial match may still end, or a match be complete because something
    did not come. `deadline` is when that is due next; whoever runs the detector calls `on_time`
    when the time has come and no event before it is missing.
    """

    def __init__(self, matcher: Matcher, shapes: Mapping[str, tuple[str, Shape]]) -> None:
        """`shapes` has a type of event and a payload for each kind of match to be published."""
        self._matcher = matcher
        self._shapes = shapes

    def on_event(self, event: Event) -> list[Event] | None:
        """The matches that an event completes or ends; None if there are none."""
        matches = self._matcher.on_event(event)
        return self._published(matches) if matches else None

    def on_time(self, ts: int) -> list[Event] | None:
        """The matches that are complete or over at a time, although nothing came."""
        matches = self._matcher.on_time(ts)
        return self._published(matches) if matches else None

    @property
    def deadline(self) -> int | None:
        """When to call `on_time` at the latest if no event comes; None if never."""
        return self._matcher.deadline

    def snapshot(self) -> Any:
        """The state, as data that does not change."""
        return self._matcher.state

    def restore(self, state: Any) -> None:
        """Go back to a state from `snapshot()`."""
        self._matcher.state = state

    def _published(self, matches: Iterable[Match]) -> list[Event] | None:
        events = []
        for match in matches:
            if match.kind in self._shapes:
                type, shape = self._shapes[match.kind]
                events.append(Event(type, match.ts, shape(match.bound, match.ts)))
        return events or None
