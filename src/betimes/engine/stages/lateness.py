"""Events that come too late: by the policy for late events, or because history is gone."""

from __future__ import annotations

from typing import Any

import numpy as np

from betimes.engine.news.path import Path
from betimes.engine.node import Node
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.stages.finality import Finality
from betimes.engine.stages.tactic import Handed, Ints
from betimes.engine.stages.telling import Telling
from betimes.engine.stats import StageCounts


class Lateness:
    """Finds events that come too late, and puts them aside."""

    def __init__(self, policy: str, node: Node, counts: StageCounts) -> None:
        self._policy = policy
        self._node = node
        self._counts = counts
        self._too_late: dict[int, int] = {}
        """By how much events come too late, by the unit's row number."""
        self.aside: set[str] = set()
        """Outputs from below that came too late and were not handled."""

    @property
    def repairs(self) -> bool:
        """Whether events delayed by more than the slack are handled anyway."""
        return self._policy == "repair"

    def note(self, arrivals: Arrivals, certain: Ints, before: int, row: int) -> None:
        """Note the events that come after their place has settled, and by how much."""
        settled = np.maximum.accumulate(np.concatenate(([before], certain[:-1])))
        wanted = np.array([self._node.takes(name) for name in arrivals.batch.types])
        late = (arrivals.batch.ts < settled) & wanted[arrivals.batch.codes]
        for index in np.flatnonzero(late).tolist():
            self._too_late[row + index] = int(settled[index] - arrivals.batch.ts[index])

    def sift(
        self, events: Handed, rows: Ints, finality: Finality, path: Path, told: Telling
    ) -> Any:
        """The events without those that come too late, which go into the news."""
        ts = events.ts
        if not len(ts) or not (self._too_late or ts.item(0) <= finality.horizon):
            return events
        late = (ts <= finality.horizon) | np.isin(rows, list(self._too_late))
        for index in np.flatnonzero(late).tolist():
            late_by = self._too_late.pop(int(rows[index]), None)
            self._counts.late += 1
            output = events.output(index)
            if output is not None:
                self.aside.add(output)
                finality.unsure.pop(output, None)
            tie = events.place(index)[2]
            if late_by is None:
                settled = finality.settled
                if output is None:  # how far it had come when the event arrived
                    clock, slack = path.at(tie)
                    settled = min(settled, clock - max(slack, 1))
                late_by = max(settled - int(ts[index]), 0)
            self._counts.late_by = max(self._counts.late_by, late_by)
            if self._policy != "drop":
                which = repr(tie) + (f" {output}" if output else "")
                told.late.append((events.event(index), late_by, which))
        return events.pick(np.flatnonzero(~late)) if late.any() else events

    def state_of(self) -> tuple[dict[int, int], set[str]]:
        """Everything needed to resume elsewhere."""
        return self._too_late, self.aside

    def resume(self, kept: tuple[dict[int, int], set[str]]) -> None:
        """Resume from what `state_of` kept."""
        self._too_late, self.aside = kept
