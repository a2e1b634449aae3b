"""Finality: how far a stage's order is certain, and which of its outputs are final.

An output is final once everything up to its cause is settled and all inputs up to there are final.
History that is older than that by `retention` is forgotten, and late events there are not repaired.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import CAUSE, DETECTED, NO_OUTPUTS, SLACK, TS, Outputs
from betimes.engine.stats import StageCounts

Ints = npt.NDArray[np.int64]
_NEVER = 2**63 - 1


class Finality:
    """What is certain, final and remembered at a stage."""

    def __init__(self, retention: int, counts: StageCounts) -> None:
        self._retention = retention
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
        self._open: list[Outputs] = []
        """Outputs of this stage that are not final yet."""
        self._soonest = _NEVER
        """The earliest cause of an open output, or earlier."""
        self._dated_back = 0

    def certain(self) -> int:
        """Only an event delayed by more than the slack can disturb events up to this time."""
        unsure = self.unsure
        return min(self.settled, min(unsure.values()) - 1) if unsure else self.settled

    def may_change_from(self) -> int:
        """No output of an earlier time can be taken back any more."""
        return self.horizon - self._dated_back

    def publish(self, outputs: Outputs) -> None:
        """Outputs were made: those that are certain are final at once, the others stay open."""
        numbers = outputs.numbers
        ts, cause, certain = numbers[TS], numbers[CAUSE], self.certain()
        counts = self._counts
        counts.made += len(outputs)
        counts.first_latency += int(np.maximum(numbers[DETECTED] - ts, 0).sum())
        self._dated_back = max(self._dated_back, int((cause - ts).max()))
        soonest = int(cause.max())
        if soonest <= certain:
            self._note_final(numbers)
            return
        late = cause > certain
        self._note_final(numbers[:, ~late])
        still = outputs.pick(np.flatnonzero(late))
        self._open.append(still)
        self._soonest = min(self._soonest, int(still.numbers[CAUSE].min()))

    def _note_final(self, numbers: Ints) -> None:
        """Count how long after their times outputs would have settled if fed one by one."""
        self._counts.finals += numbers.shape[1]
        when = np.maximum(numbers[DETECTED], numbers[CAUSE] + numbers[SLACK])
        self._counts.final_latency += int(np.maximum(when - numbers[TS], 0).sum())

    def withdraw(self, outputs: Outputs) -> None:
        """Outputs were taken back."""
        if self._open:
            gone = set(outputs.ids)
            self._open = [left for each in self._open if len(left := _without(each, gone))]

    def advance(self) -> None:
        """A batch is done: everything up to what is certain becomes final."""
        self.final_to = self.certain()

    def confirmed(self, made: Outputs) -> Outputs:
        """The outputs that have become final, without those that were made just now."""
        if self.final_to < self._soonest:
            return NO_OUTPUTS
        found, left = [], []
        for each in self._open:
            final = each.numbers[CAUSE] <= self.final_to
            if not final.any():
                left.append(each)
                continue
            found.append(each.pick(np.flatnonzero(final)))
            if not final.all():
                left.append(each.pick(np.flatnonzero(~final)))
        self._open = left
        self._soonest = min((int(each.numbers[CAUSE].min()) for each in left), default=_NEVER)
        confirmed = Outputs.concat(found)
        if len(confirmed):
            self._note_final(confirmed.numbers)
            if len(made):
                confirmed = _without(confirmed, set(made.ids))
        return confirmed

    def final_of(self, made: Outputs) -> npt.NDArray[np.bool_] | None:
        """Which outputs that were made just now are final; None if all are."""
        if not len(made):
            return None
        final: npt.NDArray[np.bool_] = made.numbers[CAUSE] <= self.final_to
        return None if final.all() else final

    def move_horizon(self) -> int:
        """How far back this stage may still have to go, given the stages below it."""
        horizon = self.final_to - self._retention
        if horizon > self.horizon:
            self.horizon = horizon
        self.reach = self.horizon if self.below is None else min(self.horizon, self.below)
        return self.reach

    def state_of(self) -> dict[str, Any]:
        """Everything needed to resume elsewhere, without the open outputs."""
        return {
            "unsure": self.unsure,
            "settled": (self.settled, self.final_to),
            "horizon": (self.horizon, self._dated_back, self.below),
            "open": [match for each in self._open for match in each.ids],
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` kept."""
        self.unsure = kept["unsure"]
        self.settled, self.final_to = kept["settled"]
        self.horizon, self._dated_back, self.below = kept["horizon"]

    def reopen(self, outputs: Outputs, ids: list[str]) -> None:
        """Of all outputs that are remembered, these are not final yet."""
        place = {match: row for row, match in enumerate(outputs.ids)}
        if ids:
            self._open = [outputs.pick(np.array([place[match] for match in ids], np.int64))]
            self._soonest = int(self._open[0].numbers[CAUSE].min())


def _without(outputs: Outputs, ids: set[str]) -> Outputs:
    if ids.isdisjoint(outputs.ids):
        return outputs
    left = [row for row, match in enumerate(outputs.ids) if match not in ids]
    return outputs.pick(np.array(left, np.int64))
