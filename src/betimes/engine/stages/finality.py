"""Finality: how far a stage's order is certain, and which of its outputs are final.

An output is final once everything up to its cause is settled and all inputs up to there are final.
History that is older than that by `retention` is forgotten, and late events there are not repaired.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from betimes.engine.news.news import Output
from betimes.engine.stats import StageCounts


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
        self.unsure: dict[str, int] = {}
        """The times of outputs from below that are not final yet."""
        self.open: dict[str, Output] = {}
        """Outputs of this stage that are not final yet."""
        self._dated_back = 0

    def certain(self) -> int:
        """Only an event delayed by more than the slack can disturb events up to this time."""
        unsure = self.unsure
        return min(self.settled, min(unsure.values()) - 1) if unsure else self.settled

    def may_change_from(self) -> int:
        """No output of an earlier time can be taken back any more."""
        return self.horizon - self._dated_back

    def publish(self, outputs: Iterable[Output]) -> None:
        """Outputs were made: those that are certain are final at once, the others stay open."""
        certain, open_, dated_back = self.certain(), self.open, self._dated_back
        made = first = last = finals = 0
        for output in outputs:
            made += 1
            ts, cause, detected = output.event.ts, output.cause[0], output.detected_at
            if detected > ts:
                first += detected - ts
            if cause - ts > dated_back:
                dated_back = cause - ts
            if cause > certain:
                open_[output.id] = output
            elif not output.final:
                output.final = True
                finals += 1
                last += _settling(output, ts)
        self._dated_back = dated_back
        counts = self._counts
        counts.made += made
        counts.first_latency += first
        counts.finals += finals
        counts.final_latency += last

    def advance(self) -> None:
        """A batch is done: everything up to what is certain becomes final."""
        self.final_to = self.certain()

    def confirmed(self) -> list[Output]:
        """The outputs that have become final."""
        found: list[Output] = []
        if not self.open:
            return found
        for output in [o for o in self.open.values() if o.cause[0] <= self.final_to]:
            del self.open[output.id]
            if not output.final:
                output.final = True
                self._counts.finals += 1
                self._counts.final_latency += _settling(output, output.event.ts)
                found.append(output)
        return found

    def move_horizon(self, below: Iterable[Finality]) -> int:
        """How far back this stage may still have to go, given the stages below it."""
        horizon = self.final_to - self._retention
        if horizon > self.horizon:
            self.horizon = horizon
        reach = self.horizon
        for each in below:
            reach = min(reach, each.may_change_from())
        self.reach = reach
        return reach

    def state_of(self) -> dict[str, Any]:
        """Everything needed to resume elsewhere, without the open outputs."""
        return {
            "unsure": self.unsure,
            "settled": (self.settled, self.final_to),
            "horizon": (self.horizon, self._dated_back),
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` kept."""
        self.unsure = kept["unsure"]
        self.settled, self.final_to = kept["settled"]
        self.horizon, self._dated_back = kept["horizon"]


def _settling(output: Output, ts: int) -> int:
    """How long after `ts` an output would have settled if events had come one by one."""
    settled = output.cause[0] + output.slack
    when = output.detected_at if output.detected_at > settled else settled
    return when - ts if when > ts else 0
