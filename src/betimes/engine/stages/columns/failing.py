"""Events at which `select` fails: the pattern goes on as if it had never seen them.

Whether the payload of a match can be made is known only once the match is complete. If it cannot,
the event that completed it is *left out*: its key goes back and does without it, as any detector
does without an event at which it fails. Whenever the past of a key changes, events that were left
out are tried again, because they may complete other matches then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import Output, Outputs, Place
from betimes.engine.reading.keys import Keys
from betimes.engine.stages.columns.history import ColumnSegment
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.tactic import ColumnReplay, Ints, Setting
from betimes.model.stored import Int, shaped
from betimes.patterns import PatternError, kernel
from betimes.patterns.kernel import AT, KEY, NUMBER, TS

Flags = npt.NDArray[np.bool_]
Disturbed = dict[int, tuple[int, int, str]]
"""Keys that must go back: to which segment, at which arrival, and why."""


def netted(told: Sequence[Outputs | ColumnReplay]) -> ColumnReplay:
    """What a stage has made and taken back in one batch: what did not last is not told."""
    made: dict[str, Output] = {}
    gone: list[Output] = []
    whys: list[str] = []
    whole = ColumnReplay(None, (-1, 0, 0), -1, on_demand=True)
    for each in told:
        if isinstance(each, ColumnReplay):
            whole.handled += each.handled
            for output, why in zip(each.gone, each.why, strict=True):
                if made.pop(output.id, None) is None:
                    gone.append(output)
                    whys.append(why)
        fresh = each.fresh if isinstance(each, ColumnReplay) else each
        made |= {output.id: output for output in fresh}
    whole.gone, whole.fresh, whole.why = Outputs.of(gone), Outputs.of([*made.values()]), whys
    return whole


class LeftOut:
    """Which events are left out, and which keys have to go back because of new ones."""

    def __init__(self, setting: Setting, keys: Keys) -> None:
        self._name = setting.node.name
        self._failures = setting.failures
        self._keys = keys
        self._numbers: set[int] = set()
        self._stumbled: Disturbed = {}

    def stumbled(self) -> Disturbed:
        """The keys that have to go back, since the last call."""
        found, self._stumbled = self._stumbled, {}
        return found

    def others(self, events: Ints) -> Flags | None:
        """Which of these events are not left out; None if none is."""
        if not self._numbers:
            return None
        return np.isin(events[NUMBER], list(self._numbers), invert=True)

    def sift(
        self,
        matches: Ints,
        handled: Ints,
        segment: int,
        payload: Callable[[Ints], object],
        place: Callable[[int, int, int, int], Place],
    ) -> Ints:
        """The matches whose payloads can be made, except those of keys that have to go back."""
        good = np.ones(matches.shape[1], np.bool_)
        told = handled[:, matches[kernel.TOLD]]
        for row in range(matches.shape[1]):
            if int(told[KEY, row]) in self._stumbled:
                continue  # what comes after a failure has to be matched again without it
            try:
                payload(matches[:, row : row + 1])
            except PatternError as error:
                good[row] = False
                ts, number, key = (int(told[field, row]) for field in (TS, NUMBER, KEY))
                due, arrival = int(matches[kernel.DUE, row]), int(told[kernel.ARRIVAL, row])
                timed = due >= 0  # no event completed it, but the end of a window
                where = place(*((due, -1, key, -1) if timed else (ts, number, key, arrival)))
                failure = DetectorFailed(f"detector {self._name!r} failed: {error}")
                self._failures.note(self._keys.values[key], where, failure)
                if not timed:
                    self._numbers.add(number)
                    self._stumbled[key] = segment, int(told[AT, row]), f"failure at {ts}"
        good &= np.isin(told[KEY], list(self._stumbled), invert=True)
        return matches[:, good]

    def go_back(self, segments: Sequence[ColumnSegment], todo: Flags, *, try_again: bool) -> None:
        """The past of these keys has changed: what failed at the end of windows may not any more.

        With `try_again`, nothing of theirs is left out any more.
        """
        for segment in segments if self._numbers and try_again else ():
            mine = todo[segment.events[KEY]]
            self._numbers.difference_update(segment.events[NUMBER, mine].tolist())
        if self._failures:
            for key in np.flatnonzero(todo).tolist():
                since = segments[0].start
                self._failures.mend(self._keys.values[key], since, deadlines=not try_again)

    def forget(self, before: int) -> None:
        """Events with lower numbers are no longer known."""
        self._numbers = {number for number in self._numbers if number >= before}

    def state_of(self) -> list[int]:
        """Everything needed to resume elsewhere."""
        return sorted(self._numbers)

    def resume(self, kept: list[int]) -> None:
        """Resume from what `state_of` kept."""
        self._numbers = set(shaped(kept, list[Int], "what was left out"))
