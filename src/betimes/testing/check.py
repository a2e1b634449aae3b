"""Checks whether a detector keeps the contract that the engine relies on.

The engine hands a detector events that may have to be taken back. It saves the detector's state,
restores it, hands over the events again in another order, and compares. This gives the result of
perfect order for any detector whose outputs depend only on its state and its events, whose state
can be saved, and which does not change its input. This module tests each of these conditions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from betimes.engine.describe import describe
from betimes.engine.snapshots.sharing import same_state
from betimes.engine.snapshots.states import Snapshotter
from betimes.model import BetimesError, Event, EventBatch, EventError, OptionError
from betimes.model.change import content
from betimes.model.detector import Maker
from betimes.model.hints import known_options
from betimes.patterns import Pattern
from betimes.testing.oracle import call, events_of

ROUNDS = 8
"""How often the sample is repeated to find out whether the state grows."""


class DetectorCheckError(BetimesError, AssertionError):
    """A detector breaks the contract. Says how that was found, and what to do."""


@dataclass(frozen=True)
class Trial:
    """A detector and the events, in order, of one of its keys."""

    maker: Maker
    events: Sequence[Event]

    @property
    def name(self) -> str:
        return self.maker.name

    def run(self, detector: Any, events: Iterable[Event]) -> list[Event]:
        made = []
        for event in events:
            try:
                made += call(self.maker.kind, detector, event)
            except Exception as error:
                raise DetectorCheckError(
                    f"{self.name} failed at {event!r}, handed in order: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return made


@known_options
def check_detector(
    detector: Any, events: Iterable[Event], *, by: str | None = None, bounded: bool = True
) -> None:
    """Raise `DetectorCheckError` if a detector does not keep the contract with the engine.

    Pass `detector` and `by` as to `Hierarchy.add`. `events` is a sample, in any order, for which
    the detector returns something. The check is that the detector

    * returns `Event` objects with valid times and payloads that can be stored,
    * does not change the events it gets,
    * returns the same for the same events each time, independent of other keys,
    * continues in the same way from a snapshot of its state,
    * if it works per batch: returns the same however the events are cut into batches,
    * has a state of bounded size, unless `bounded=False`. The state is measured while the sample is
      repeated, so a time window longer than the sample looks unbounded.

    >>> class Rising:
    ...     last = 0
    ...
    ...     def on_event(self, event):
    ...         if event["v"] > self.last:
    ...             yield Event("rising", event.ts, {"by": event["v"] - self.last})
    ...         self.last = event["v"]
    >>> sample = [Event("reading", ts, {"v": ts * 7 % 5}) for ts in range(20)]
    >>> check_detector(Rising, sample)

    >>> def impatient(event, seen=[]):
    ...     seen.append(event)
    ...     return Event("many", event.ts) if len(seen) > 20 else None
    >>> check_detector(impatient, sample * 2)  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    betimes.testing.check.DetectorCheckError: impatient does not repeat itself: run again on the
    same events, it returned 40 events instead of 20; ...
    """
    maker = (
        Maker(detector.make)
        if isinstance(detector, Pattern)
        else describe(detector, on="*", emits="*", by=by, name=None).maker
    )
    trials = _by_key(maker, sorted(events, key=lambda event: event.ts), by)
    made = {key: _check_outputs(trial) for key, trial in trials.items()}
    if not any(made.values()):
        raise OptionError(
            f"expected events for which {maker.name} returns something, but it returned nothing "
            f"for {sum(len(trial.events) for trial in trials.values())} events; pass a sample that "
            "it reacts to"
        )
    for key, trial in trials.items():
        _check_determinism(trial, made[key])
    _check_keys(trials, made)
    for key, trial in trials.items():
        _check_snapshots(trial, made[key])
        if maker.kind == "batch":
            _check_cuts(trial, made[key])
        if bounded and maker.kind != "function":
            _check_growth(trial)


def _by_key(maker: Maker, events: Sequence[Event], by: str | None) -> dict[Any, Trial]:
    keys: dict[Any, list[Event]] = {}
    for event in events:
        if by is not None and by not in event.payload:
            raise EventError(f"expected every event to have by={by!r}, but {event!r} has none")
        keys.setdefault(None if by is None else event[by], []).append(event)
    return {key: Trial(maker, mine) for key, mine in keys.items()}


# What it makes, and what it leaves alone


def _check_outputs(trial: Trial) -> list[Event]:
    detector, made = trial.maker.make(), []
    before = [copy.deepcopy(event) for event in trial.events]
    for event in trial.events:
        outputs = trial.run(detector, [event])
        for output in outputs:
            _check_output(trial, event, output)
        made += outputs
    for event, known in zip(trial.events, before, strict=True):
        if not same_state(event.payload, known.payload):
            raise DetectorCheckError(
                f"{trial.name} changed an event that it was given: {known!r} became {event!r}; "
                "all detectors share events, and replays hand them over again: copy the "
                "payload before you change it, as in {**event.payload, ...}"
            )
    return made


def _check_output(trial: Trial, event: Event, output: Any) -> None:
    if type(output) is not Event:
        raise DetectorCheckError(
            f"expected {trial.name} to return Event objects, but for {event!r} it returned "
            f"{output!r}; yield or return bt.Event(type, ts, payload)"
        )
    if type(output.ts) is not int or output.ts < 0:
        raise DetectorCheckError(
            f"expected times in whole microseconds, 0 or more, but for {event!r} {trial.name} "
            f"returned a {output.type!r} event with the time {output.ts!r}; use int(...), and "
            "max(0, ...) if you date back"
        )
    try:
        msgspec.json.encode(output.payload, enc_hook=_array_to_list)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise DetectorCheckError(
            f"expected payloads of numbers, text, lists and dictionaries, but for {event!r} "
            f"{trial.name} returned {output!r}: {error}; convert, as in float(x) or x.tolist()"
        ) from error


def _array_to_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain data")


# What it depends on


def _check_determinism(trial: Trial, made: list[Event]) -> None:
    again = trial.run(trial.maker.make(), trial.events)
    if not _equal(made, again):
        raise DetectorCheckError(
            f"{trial.name} does not repeat itself: run again on the same events, it returned "
            f"{_difference(made, again)}; its result must depend only on the state of the "
            "object and on the events: do not use a global or class variable, clock, file or "
            "random number"
        )


def _check_keys(trials: Mapping[Any, Trial], made: Mapping[Any, list[Event]]) -> None:
    """One detector per key, fed in turns, must return what each returns alone."""
    if len(trials) < 2:
        return
    detectors = {key: trial.maker.make() for key, trial in trials.items()}
    turns = sorted(
        ((event, key) for key, trial in trials.items() for event in trial.events),
        key=lambda turn: turn[0].ts,
    )
    mixed: dict[Any, list[Event]] = {key: [] for key in trials}
    for event, key in turns:
        mixed[key] += trials[key].run(detectors[key], [event])
    for key, trial in trials.items():
        if not _equal(mixed[key], made[key]):
            raise DetectorCheckError(
                f"together with other keys, the {trial.name} of the key {key!r} returned "
                f"{_difference(made[key], mixed[key])}; the detectors of two keys must not share "
                "anything: keep the state in the object, not in its class"
            )


# Whether its state can be saved


def _check_snapshots(trial: Trial, made: list[Event]) -> None:
    snapshotter = Snapshotter(trial.maker, trial.name)
    events = trial.events
    for count in sorted({0, 1, len(events) // 2, len(events) - 1}):
        detector = snapshotter.make()
        begun = trial.run(detector, events[:count])
        saved = snapshotter.take(detector)
        kept = copy.deepcopy(saved)
        where = f"after {count} of {len(events)} events"
        rest = made[len(begun) :]
        for runner in (detector, None, None):
            restored = snapshotter.restore(saved) if runner is None else runner
            if runner is None:
                _check_equal_state(trial, saved, snapshotter.take(restored), where)
            continued = trial.run(restored, events[count:])
            if not _equal(continued, rest):
                raise DetectorCheckError(
                    f"{trial.name} was saved {where}; restored, it returned for the others "
                    f"{_difference(rest, continued)}; {_advice(trial)}"
                )
            if not same_state(saved, kept) and same_state(kept, copy.deepcopy(kept)):
                raise DetectorCheckError(
                    f"the snapshot of {trial.name} {where} was {kept!r}, but when the detector "
                    f"continued, it became {saved!r}; {_advice(trial)}"
                )


def _check_equal_state(trial: Trial, saved: Any, again: Any, where: str) -> None:
    if not same_state(saved, again):
        raise DetectorCheckError(
            f"the state of {trial.name} {where} was {saved!r}; restored and saved again, it is "
            f"{again!r}, which is not the same, so no replay could end early; let restore() "
            "restore everything that snapshot() returns, and keep only data in it"
        )


def _advice(trial: Trial) -> str:
    if hasattr(trial.maker.make(), "snapshot"):
        return (
            "snapshot() must return a copy of the whole state, and restore(state) must copy it "
            "again, because the engine uses a snapshot more than once"
        )
    return (
        "keep the whole state in attributes of the object (not in a closure, a class variable or "
        "the object's own items), or give it snapshot() and restore(state)"
    )


# Batches


def _check_cuts(trial: Trial, made: list[Event]) -> None:
    count = len(trial.events)
    for size in sorted({2, 3, max(1, count // 2), count}):
        detector = trial.maker.make()
        cut: list[Event] = []
        for low in range(0, count, size):
            batch = EventBatch.from_rows(list(trial.events[low : low + size]))
            known = batch.ts.copy(), batch.codes.copy()
            result = detector.on_batch(batch)
            cut += events_of(result, batch)
            if not (np.array_equal(batch.ts, known[0]) and np.array_equal(batch.codes, known[1])):
                raise DetectorCheckError(
                    f"{trial.name} changed the columns of a batch that it was given; work on a "
                    "copy, as in batch.ts.copy()"
                )
        if not _equal(cut, made):
            raise DetectorCheckError(
                f"given batches of {size} events instead of single ones, {trial.name} returned "
                f"{_difference(made, cut)}; where a batch ends must not matter: keep what is "
                "unfinished in the state until the next batch"
            )


# Growth


def _check_growth(trial: Trial) -> None:
    """The state must not grow as much again from round 4 to 8."""
    snapshotter = Snapshotter(trial.maker, trial.name)
    detector = snapshotter.make()
    length = trial.events[-1].ts - trial.events[0].ts + 1
    sizes = []
    for number in range(ROUNDS):
        later = (Event(e.type, e.ts + number * length, e.payload) for e in trial.events)
        trial.run(detector, later)
        sizes.append(_size(snapshotter.take(detector)))
    half = ROUNDS // 2
    grown, before = sizes[-1] - sizes[half - 1], sizes[half - 1] - sizes[0]
    if grown > half and grown > before * half / (half - 1) / 2:
        raise DetectorCheckError(
            f"the state of {trial.name} grows with every event: {sizes[0]} parts after "
            f"{len(trial.events)} events, {sizes[half - 1]} after {half * len(trial.events)}, "
            f"{sizes[-1]} after {ROUNDS * len(trial.events)}; drop what is too old to matter, "
            "as in deque(maxlen=...). If it is bounded by a window longer than the sample, pass "
            "a longer sample or bounded=False"
        )


def _size(state: Any) -> int:
    """How many parts a state has, counted recursively."""
    if isinstance(state, str | bytes | bytearray):
        return 1 + len(state)
    if isinstance(state, np.ndarray):
        return 1 + int(state.size)
    if isinstance(state, Mapping):
        return 1 + sum(_size(key) + _size(value) for key, value in state.items())
    if isinstance(state, Iterable):
        return 1 + sum(map(_size, state))
    inner = getattr(state, "__dict__", None)
    return 1 if not inner else 1 + _size(inner)


# Comparing


def _equal(one: Sequence[Event], another: Sequence[Event]) -> bool:
    return list(map(content, one)) == list(map(content, another))


def _difference(expected: Sequence[Event], got: Sequence[Event]) -> str:
    if len(expected) != len(got):
        return f"{len(got)} events instead of {len(expected)}"
    pairs = zip(expected, got, strict=True)
    wanted, other = next((e, g) for e, g in pairs if content(e) != content(g))
    return f"{other!r} instead of {wanted!r}"
