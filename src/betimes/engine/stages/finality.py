"""Finality: how far a stage's order is certain, and which of its outputs are final.

An output is final once everything up to its cause is settled and all inputs up to there are final.
History that is older than that by `retention` is forgotten, or, with a budget of memory, what is
the oldest; late events there are not repaired.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import CAUSE, DETECTED, NO_OUTPUTS, SLACK, TS, Outputs
from betimes.engine.retention import Retention
from betimes.engine.stats import StageCounts
from betimes.model.duration import LONGEST

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_NEVER = 2**63 - 1


class _Open(NamedTuple):
    """Outputs that are not final yet, and the times of their first and last causes."""

    first: int
    last: int
    outputs: Outputs


class Finality:
    """What is certain, final and remembered at a stage."""

    def __init__(self, retention: Retention, counts: StageCounts) -> None:
        self._least = retention.least
        self._forgettable = LONGEST if retention.budget is None else -1
        """With a budget, what is younger than this is kept even if it is older than required."""
        self._counts = counts
        self.settled = -1
        """Order is certain up to this time, judging by the clock."""
        self.final_to = -1
        """Everything up to this time is settled and final."""
        self.horizon = -1
        """An event that lands here or before comes too late: history is gone."""
        self.reach = -1
        """Nothing goes back to before this time."""
        self.below: int | None = None
        """Nothing earlier will be taken back from below; None if nobody publishes for it."""
        self.unsure: dict[str, int] = {}
        """The times of outputs from below that are not final yet."""
        self._open: list[_Open] = []
        """Outputs of this stage that are not final yet."""
        self.soonest = _NEVER
        """The earliest cause of an open output, or earlier."""
        self._dated_back = 0

    def certain(self) -> int:
        """Only an event delayed by more than the slack can disturb events up to this time."""
        unsure = self.unsure
        return min(self.settled, min(unsure.values()) - 1) if unsure else self.settled

    def may_change_from(self) -> int:
        """No output of an earlier time can be taken back any more."""
        return self.horizon - self._dated_back

    def publish(self, outputs: Outputs) -> Flags | None:
        """Outputs were made: those that are certain are final at once, the others stay open.

        Returns which are final; None if all are.
        """
        certain, counts = self.certain(), self._counts
        counts.made += len(outputs)
        if outputs.made_one_by_one:
            times: Any = []
            for output in outputs.rows:
                ts, cause = output.event.ts, output.cause[0]
                times.append(cause)
                counts.first_latency += max(output.detected_at - ts, 0)
                self._dated_back = max(self._dated_back, cause - ts)
            first, last = min(times), max(times)
        else:
            numbers = outputs.numbers
            times = numbers[CAUSE]
            counts.first_latency += int(np.maximum(numbers[DETECTED] - numbers[TS], 0).sum())
            self._dated_back = max(self._dated_back, int((times - numbers[TS]).max()))
            first, last = int(times.min()), int(times.max())
        if last <= certain:
            self._note_final(outputs)
            return None
        if first > certain:
            self._stays_open(_Open(first, last, outputs))
            return np.zeros(len(outputs), np.bool_)
        sure, others = outputs.caused_by(certain)
        self._note_final(sure)
        self._reopen(others)
        final: Flags = np.less_equal(times, certain)
        return final

    def _note_final(self, outputs: Outputs) -> None:
        """Count how long after their times outputs would have settled if fed one by one.

        What waited for the end of the stream settled with its last event.
        """
        self._counts.finals += len(outputs)
        if not outputs.made_one_by_one:
            numbers = outputs.numbers
            held = np.where(numbers[CAUSE] == _NEVER, -numbers[SLACK], numbers[CAUSE])
            settled = np.maximum(numbers[DETECTED], held + numbers[SLACK])
            self._counts.final_latency += int(np.maximum(settled - numbers[TS], 0).sum())
            return
        for output in outputs.rows:
            cause = output.cause[0]
            when = max(output.detected_at, 0 if cause == _NEVER else cause + output.slack)
            self._counts.final_latency += max(when - output.event.ts, 0)

    def withdraw(self, outputs: Outputs) -> None:
        """Outputs were taken back."""
        if self._open:
            gone, known = set(outputs.ids), self._open
            self._open = []
            for each in known:
                left = _without(each.outputs, gone)
                if left is each.outputs:
                    self._open.append(each)
                elif len(left):
                    self._reopen(left)

    def advance(self) -> None:
        """A batch is done: everything up to what is certain becomes final."""
        self.final_to = self.certain() if self.unsure else self.settled

    def confirmed(self) -> Outputs:
        """The outputs that have become final since they were published."""
        if self.final_to < self.soonest:
            return NO_OUTPUTS
        known, final_to = self._open, self.final_to
        self._open = [each for each in known if each.first > final_to]
        self.soonest = min([each.first for each in self._open], default=_NEVER)
        found = [each.outputs for each in known if each.last <= final_to]
        for first, last, outputs in known:
            if first <= final_to < last:
                final, others = outputs.caused_by(final_to)
                found.append(final)
                self._reopen(others)
        confirmed = Outputs.concat(found)
        if len(confirmed):
            self._note_final(confirmed)
        return confirmed

    def forget_before(self, ts: int) -> None:
        """Memory is short: what is older need not be kept for longer than required."""
        self._forgettable = max(self._forgettable, ts)

    def move_horizon(self) -> int:
        """How far back this stage may still have to go, given the stages below it."""
        horizon = min(self.final_to - self._least, self._forgettable)
        if horizon > self.horizon:
            self.horizon = horizon
        self.reach = self.horizon if self.below is None else min(self.horizon, self.below)
        return self.reach

    def state_of(self) -> dict[str, Any]:
        """Everything needed to resume elsewhere; of the open outputs, only their identities."""
        return {
            "unsure": self.unsure,
            "settled": (self.settled, self.final_to),
            "horizon": (self.horizon, self._forgettable, self._dated_back, self.below),
            "open": [match for each in self._open for match in each.outputs.ids],
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` kept."""
        self.unsure = kept["unsure"]
        self.settled, self.final_to = kept["settled"]
        self.horizon, self._forgettable, self._dated_back, self.below = kept["horizon"]

    def reopen(self, outputs: Outputs, ids: list[str]) -> None:
        """Of all outputs that are remembered, these are not final yet."""
        place = {match: row for row, match in enumerate(outputs.ids)}
        if ids:
            self._reopen(outputs.pick(np.array([place[match] for match in ids], np.int64)))

    def _reopen(self, outputs: Outputs) -> None:
        if outputs.made_one_by_one:
            causes = [output.cause[0] for output in outputs.rows]
        else:
            causes = outputs.numbers[CAUSE].tolist()
        self._stays_open(_Open(min(causes), max(causes), outputs))

    def _stays_open(self, more: _Open) -> None:
        self._open.append(more)
        self.soonest = min(self.soonest, more.first)


def _without(outputs: Outputs, ids: set[str]) -> Outputs:
    if ids.isdisjoint(outputs.ids):
        return outputs
    return outputs.where(lambda match: match not in ids)
