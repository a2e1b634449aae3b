"""What a pattern means, by definition: try every way to give events to steps, and judge each one.

This shares nothing with the automaton. A way is judged as a whole, bound event by bound event: how
it follows the one before, and what the events between the two may be. Patterns are rows of steps
(no groups, no windows between times), with or without prohibitions, of which two shapes are left
out because what they mean hangs on how Flink builds them: nothing but optional steps after
`not_next` or after a greedy step, and `not_next` directly before a final `not_followed_by`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, pairwise
from typing import NamedTuple

from betimes.model import Event
from betimes.patterns.steps import Spec, Step


class Bound(NamedTuple):
    """An event, by its place in the stream, given to a step as its `nth` event (from 0)."""

    at: int
    step: int
    nth: int


Way = tuple[Bound, ...]


class Found(NamedTuple):
    """A match, and when it is complete: at a time, or with an event."""

    names: tuple[tuple[str, int], ...]
    ts: int
    done: tuple[int, int, int]
    """The time; 0 if a window ended, 1 if an event came; and which event."""
    rank: tuple[int, ...]
    """Of matches with the same start that are complete together, the smallest comes first."""

    @property
    def start(self) -> int:
        return self.names[0][1]


def brute(spec: Spec, events: Sequence[Event]) -> list[Found]:
    """All matches in the stream, if time goes on after it; in order, if some are skipped."""
    judge = _Judge(spec, events)
    found = [match for way in _ways(spec.steps, len(events)) if (match := judge.match(way))]
    return found if spec.skip == "none" else _skipped(spec.skip, found)


def _ways(steps: Sequence[Step], events: int) -> Iterator[Way]:
    """All ways to give some of the events to steps, as many to each as it may have."""
    positive = [number for number, step in enumerate(steps) if not step.negated]
    for count in range(1, events + 1):
        for chosen in combinations_with_replacement(positive, count):
            if not all(_may_have(steps[number], chosen.count(number)) for number in positive):
                continue
            given = [(step, chosen[:k].count(step)) for k, step in enumerate(chosen)]
            for places in combinations(range(events), count):
                yield tuple(Bound(at, *each) for at, each in zip(places, given, strict=True))


def _may_have(step: Step, count: int) -> bool:
    if count == 0:
        return step.optional
    return step.least <= count and (step.most is None or count <= step.most)


def _skipped(skip: str, found: list[Found]) -> list[Found]:
    """The earliest match first; it does away with others, and so on."""
    strategy, _, name = skip.partition(":")
    left = sorted(found, key=lambda each: (each.start, each.done, each.rank))
    kept = []
    while left:
        match, *left = left
        kept.append(match)
        there = [at for step, at in match.names if step == name]
        if strategy == "to_next":
            first = match.start + 1
        elif strategy == "past_last":
            first = match.names[-1][1] + 1
        else:
            first = (there[0] if strategy == "to_first" else there[-1]) if there else 0
        left = [each for each in left if each.start >= first]
    return kept


class _Judge:
    def __init__(self, spec: Spec, events: Sequence[Event]) -> None:
        self.steps = spec.steps
        self.within = spec.within
        self.events = events

    def match(self, way: Way) -> Found | None:
        """The match that a way of giving events to steps is, if it is one."""
        if not all(self.follows(way, k) for k in range(len(way))):
            return None
        done = self.done(way)
        if done is None or (self.within is not None and self.span(way) >= self.within):
            return None
        names = tuple((self.steps[step].name, at) for at, step, _ in way)
        ts = done[0] if done[1] == 0 else self.events[way[-1].at].ts
        return Found(names, ts, done, self.rank(way))

    def span(self, way: Way) -> int:
        return self.events[way[-1].at].ts - self.events[way[0].at].ts

    def fits(self, step: Step, at: int, way: Way) -> bool:
        """Whether an event fits a step when so much is bound."""
        condition = step.takes[0][1]
        return condition is None or condition.holds(self.events[at], self.bound(way))

    def ends(self, step: Step, at: int, way: Way) -> bool:
        return step.until is not None and step.until.holds(self.events[at], self.bound(way))

    def bound(self, way: Way) -> dict[str, list[Event]]:
        bound: dict[str, list[Event]] = {}
        for at, step, _ in way:
            bound.setdefault(self.steps[step].name, []).append(self.events[at])
        return bound

    def follows(self, way: Way, k: int) -> bool:
        """Whether the k-th bound event may be bound after those before it."""
        before, (at, number, nth) = way[:k], way[k]
        step = self.steps[number]
        if not self.fits(step, at, before) or self.ends(step, at, before):
            return False
        since = before[-1].at + 1 if before else at
        between = range(since, at)
        follows = {"relaxed": "followed_by", "strict": "next"}.get(step.inner) if nth else step.op
        if before and follows == "next" and between:
            return False
        if follows == "followed_by" and any(self.fits(step, x, before) for x in between):
            return False
        if nth and any(self.ends(step, x, before) for x in between):
            return False
        if before and step.within is not None:
            waited = self.events[at].ts - self.events[before[-1].at].ts
            if waited >= step.within:
                return False
        complete = k == len(way) - 1 and not self.steps[-1].negated
        events = range(since, at + 1)
        return self.unvetoed(before, number, events) and (
            not before or self.allowed(before, number, events, complete=complete)
        )

    def allowed(self, before: Way, number: int, events: range, *, complete: bool) -> bool:
        """Whether no prohibition is broken by events, the last of which is bound to a step."""
        looping = before[-1].step == number
        for step in self.negated_after(before[-1].step):
            if step.op == "not_followed_by":
                # What completes the match may be what must not come until then.
                judged: Sequence[int] = events[:-1] if complete else events
            elif looping and not self.may_end(before, events):
                judged = ()  # nothing comes after the loop here
            else:
                judged = events[:1]
            if any(self.fits(step, x, before) for x in judged):
                return False
        return True

    def may_end(self, before: Way, events: range) -> bool:
        """Whether a loop may end with what it has; a greedy one not if it can have the next."""
        step = self.steps[before[-1].step]
        enough = before[-1].nth + 1 >= step.least
        return enough and not (step.greedy and events and self.fits(step, events[0], before))

    def negated_after(self, number: int) -> Iterator[Step]:
        for step in self.steps[number + 1 :]:
            if not step.negated:
                return
            yield step

    def unvetoed(self, before: Way, number: int, events: range) -> bool:
        """Whether no greedy step that was left could have had one of the events."""
        first = before[-1].step if before else 0
        for step in self.steps[first:number]:
            ended = bool(events) and self.ends(step, events[0], before)
            vetoes = step.greedy and step.most != step.least and not ended
            if vetoes and any(self.fits(step, x, before) for x in events):
                return False
        return True

    def done(self, way: Way) -> tuple[int, int, int] | None:
        """When the match is complete; None if it never is."""
        last, end = way[-1].at, self.steps[-1]
        if not end.negated:
            return self.events[last].ts, 1, last
        after = range(last + 1, len(self.events))
        closes = self.closes(way)
        inside = [x for x in after if closes is None or self.events[x].ts < closes]
        judged = inside if end.op == "not_followed_by" else inside[:1]
        broken = any(
            self.fits(step, x, way)
            for step in self.negated_after(way[-1].step)
            for x in (judged if step.op == "not_followed_by" else judged[:1])
        )
        vetoed = not self.unvetoed(way, len(self.steps), range(last + 1, last + 1 + len(judged)))
        if broken or vetoed:
            return None
        if end.op == "not_followed_by":
            return (closes or 0), 0, 0
        return (self.events[judged[0]].ts, 1, judged[0]) if judged else None

    def closes(self, way: Way) -> int | None:
        """When the window of a match that waits for something not to come ends."""
        ends = []
        if self.within is not None:
            ends.append(self.events[way[0].at].ts + self.within)
        if self.steps[-1].within is not None:
            ends.append(self.events[way[-1].at].ts + self.steps[-1].within)
        return min(ends, default=None)

    def rank(self, way: Way) -> tuple[int, ...]:
        """What was done at each event: taken, ignored, or the step left, which comes last."""
        rank = [2 * way[0].step]
        for before, bound in pairwise(way):
            left = 2 * self.left(before, bound.step)
            waited = bound.at - before.at - 1
            rank += [left + 1] + [1] * (waited - 1) + [0] if waited else [left]
        return (*rank, 2 * self.left(way[-1], len(self.steps)) + 1)

    def left(self, before: Bound, number: int) -> int:
        """How many steps are left without an event between a bound one and the next."""
        step = self.steps[before.step]
        full = step.most is not None and before.nth + 1 >= step.most
        waiting = [each for each in self.steps[before.step + 1 : number] if not each.negated]
        return len(waiting) + (not full and before.step != number)
