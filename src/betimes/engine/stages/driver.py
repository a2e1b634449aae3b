"""A stage: one detector behind its ordering unit. What all kinds of stages have in common.

A stage takes what arrives in a batch, once, and tells what that changes. Its outputs are
provisional until everything up to their causes is settled, and itself final; what is older than
anybody may still ask for is forgotten. How events are handled, and how a stage goes back when one
lands before others that were handled, is the business of its kind: `RowStage` hands events to
Python detectors, `ColumnStage` runs compiled patterns over columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.attenuation import Load
from betimes.engine.hierarchy import Node
from betimes.engine.news.ledger import Ledger
from betimes.engine.news.news import News, Output
from betimes.engine.news.outputs import OutputMaker, Path
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.snapshots.spacing import SnapshotModel
from betimes.engine.stages.observers import Observer
from betimes.engine.stages.retraction import Retraction, Technique
from betimes.engine.stats import DetectorStats, StageCounts
from betimes.model.event import TICK, Event
from betimes.ordering import NEVER, Ordered, OrderingUnit
from betimes.ordering.clock import EVERY

Ints = npt.NDArray[np.int64]
END = 2**63 - 1
NOTHING: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class StageOptions:
    """What the engine was told, as far as it concerns every stage."""

    clock: tuple[str, ...] | None
    retraction: Technique
    retention: int
    late: str
    errors: str
    grouped: bool
    """Whether the engine splits the stream."""
    snapshots: SnapshotModel
    time: Callable[[], float]
    observers: tuple[Observer, ...] = ()


class Stage(ABC):
    """One detector, its ordering unit, its outputs."""

    def __init__(self, node: Node, rank: int, unit: OrderingUnit, options: StageOptions) -> None:
        self.node = node
        self.rank = rank
        self.unit = unit
        self.clock = options.clock
        self.retraction = Retraction(options.retraction)
        self.counts = StageCounts()
        self._outputs = OutputMaker(node, rank, self._group, options.retention)
        self.final_to = -1
        """Everything up to this time is settled and final."""
        self._settled = -1
        """Order is certain up to this time, as far as the clock tells."""
        self._retention = options.retention
        self._late = options.late
        self._grouped = options.grouped
        self._time = options.time
        self._open: dict[str, Output] = {}
        self._unsure: dict[str, int] = {}
        self._too_late: dict[int, int] = {}
        self._suspects: dict[int, tuple[Event, int]] = {}
        """Clock events that may be absurd, by the unit's row number, with their arrivals."""
        self._loaded = (0.0, 0.0, 0)
        self._load: Load | None = None
        self.observers = options.observers
        self.below: list[Stage] = []
        """The stages that publish what this one subscribes to."""
        self.ledger = None if options.retraction == "on-demand" else Ledger()
        """What the readers of this stage remember of it."""
        self.reach = -1
        """Nothing before this time will be gone back to."""
        self._horizon = -1
        self._dated_back = 0

    @abstractmethod
    def step(
        self, arrivals: Arrivals, deleted: list[Output], confirmed: list[Output], first: int
    ) -> News:
        """Take what arrives in a batch; `first` is the number of the batch's first arrival."""

    @abstractmethod
    def arrivals(self, inputs: Inputs) -> Arrivals:
        """What of a batch of input events arrives here; nothing is taken in yet.

        Bad events are named.
        """

    def sees(self, type: str) -> bool:
        """Whether input events of this type concern it: it takes them, or they move its clock."""
        clock = self.clock
        moves = clock is None or EVERY in clock or type in clock or type == TICK
        return moves or self.node.takes(type)

    @abstractmethod
    def finish(self, last: int, time: int) -> News:
        """The stream has ended at this time: handle what is left; everything is final."""

    @abstractmethod
    def state_of(self) -> dict[str, Any]:
        """All that must be kept to go on elsewhere, as data."""

    @abstractmethod
    def resume(self, kept: dict[str, Any]) -> None:
        """Go on from what `state_of` kept."""

    @property
    @abstractmethod
    def remembered(self) -> int:
        """How many handled events it could go back to."""

    @abstractmethod
    def snapshots(self) -> tuple[int, int]:
        """How many states it could go back to, and what they take in bytes."""

    @abstractmethod
    def _forget(self, before: int) -> Iterable[list[Output]]:
        """Forget what was handled before a time; give back the outputs of that time."""

    def _judge_failures(self) -> None:  # noqa: B027 - compiled patterns have none
        """A failure whose place is final is the detector's own."""

    def load(self) -> Load:
        """What the stage did since it was asked last."""
        counts, before = self.counts, self._loaded
        self._loaded = (counts.busy, counts.replaying, counts.handled)
        self._load = Load(
            busy=counts.busy - before[0],
            replaying=counts.replaying - before[1],
            released=counts.handled - before[2],
            slack=self.unit.stats.slack,
        )
        return self._load

    def stats(self, level: int, span: float) -> DetectorStats:
        """Readings; `span` is the time for which the last load counts."""
        unit, counts = self.unit.stats, self.counts
        snapshots, snapshot_bytes = self.snapshots()
        return DetectorStats(
            detector=self.node.name,
            level=level,
            clock=unit.clock,
            slack=unit.slack,
            attenuation=unit.attenuation,
            buffered=unit.buffered,
            remembered=self.remembered,
            released=unit.released,
            handled=counts.handled,
            replays=counts.replays,
            replayed=counts.replayed,
            snapshots=snapshots,
            snapshot_bytes=snapshot_bytes,
            retracted=counts.retracted,
            late=counts.late,
            errors=counts.errors,
            retraction=f"{self.retraction.technique}: {self.retraction.reason}",
            latency_provisional=counts.first_latency / counts.made if counts.made else None,
            latency_final=counts.final_latency / counts.finals if counts.finals else None,
            busy=counts.busy,
            busy_factor=0.0 if self._load is None else self._load.busy / span,
        )

    # Order

    def _follow(self, arrivals: Arrivals, answer: Ordered, news: News, row: int) -> None:
        """Note the path of clock and slack, how far order is certain, and what comes too late."""
        for observer in self.observers:
            observer.arrived(self, arrivals.batch, answer)
        clock, slack = answer.clock, answer.slack
        before = self._outputs.path.end
        bounds = self._pass_time(clock, slack)
        inputs_only = not arrivals.outputs
        path = Path(before, arrivals.at, clock, slack, bounds, increasing=inputs_only)
        self._outputs.path = path
        if not len(clock):
            return
        told = 0 if before[0] == NEVER else before[1]
        steady = clock.min() != NEVER and (slack == told).all()
        if steady and self._late == "repair":
            # The common case: most is certain where the clock is furthest.
            self._settled = max(self._settled, int(clock.max()) - max(told, 1))
            return
        # As long as nothing is learned, the newest instant stays open.
        certain = clock - np.maximum(slack, 1)
        if clock[0] == NEVER:
            certain[clock == NEVER] = -1
        if self._late != "repair":
            self._note_late(arrivals, certain, row)
        self._settled = max(self._settled, int(certain.max()))
        if slack[-1] != told or self.unit.policy != "largest":
            known = np.where(clock == NEVER, 0, slack)
            for index in np.flatnonzero(np.diff(known, prepend=told) > 0).tolist():
                ts = max(int(clock[index] - slack[index]), 0)
                news.notices.append((int(arrivals.at[index]), ts))

    def _pass_time(self, clock: Ints, slack: Ints) -> Ints:  # noqa: ARG002
        """How far time comes with each arrival, if the detector wants to know."""
        return NOTHING

    def _note_late(self, arrivals: Arrivals, certain: Ints, row: int) -> None:
        """Note the events that come after their place has settled, and by how much."""
        settled = np.maximum.accumulate(np.concatenate(([self._settled], certain[:-1])))
        wanted = np.array([self.node.takes(name) for name in arrivals.batch.types])
        late = (arrivals.batch.ts < settled) & wanted[arrivals.batch.codes]
        for index in np.flatnonzero(late).tolist():
            self._too_late[row + index] = int(settled[index] - arrivals.batch.ts[index])

    def _note_suspects(self, arrivals: Arrivals, answer: Ordered, row: int, news: News) -> None:
        """Report clock events that were put aside; remember those that may be."""
        rejected, open_ = answer.step.rejected, self.unit.suspect_rows
        if not (len(rejected) or open_ or self._suspects):
            return
        for number in rejected.tolist():
            known = self._suspects.pop(number, None)
            news.rejected.append(known or arrivals.one(number - row))
        self._suspects = {
            number: self._suspects.get(number) or arrivals.one(number - row) for number in open_
        }

    def _certain(self) -> int:
        """Events up to this time can only be disturbed by one that breaks the slack."""
        return min(self._settled, min(self._unsure.values(), default=END + 1) - 1)

    # Outputs

    def _publish(self, outputs: list[Output], news: News) -> None:
        """Tell outputs; what is certain already is final at once, the others wait for it."""
        news.inserted += outputs
        for observer in self.observers:
            observer.made(self, outputs)
        certain, open_, dated_back = self._certain(), self._open, self._dated_back
        first = last = finals = 0
        for output in outputs:
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
        self.counts.made += len(outputs)
        self.counts.first_latency += first
        self.counts.finals += finals
        self.counts.final_latency += last

    def may_change_from(self) -> int:
        """No output of an earlier time will be taken back any more."""
        return self._horizon - self._dated_back

    def _settle(self, news: News) -> None:
        """Outputs become final; what is older than anybody may still ask for is forgotten."""
        self.final_to = self._certain()
        self._judge_failures()
        for output in [o for o in self._open.values() if o.cause[0] <= self.final_to]:
            del self._open[output.id]
            if not output.final:
                output.final = True
                self.counts.finals += 1
                self.counts.final_latency += _settling(output, output.event.ts)
                news.confirmed.append(output)
        self._horizon = max(self._horizon, self.final_to - self._retention)
        changeable = [stage.may_change_from() for stage in self.below]
        self.reach = min([self._horizon, *changeable])
        for outputs in self._forget(self.reach):
            self._outputs.unmake(outputs)

    def _common_state(self) -> dict[str, Any]:
        """What every kind of stage must keep, beside its history."""
        return {
            "unsure": self._unsure,
            "copies": self._outputs.copies,
            "too_late": self._too_late,
            "suspects": self._suspects,
            "settled": (self._settled, self.final_to),
            "before": self._outputs.path.end,
            "horizon": (self._horizon, self._dated_back),
            "counts": [getattr(self.counts, name) for name in self.counts.__struct_fields__],
        }

    def _resume_common(self, kept: dict[str, Any]) -> None:
        self._unsure, self._outputs.copies = kept["unsure"], kept["copies"]
        self._too_late, self._suspects = kept["too_late"], kept["suspects"]
        self._settled, self.final_to = kept["settled"]
        self._outputs.path = Path(kept["before"])
        self._horizon, self._dated_back = kept["horizon"]
        for name, value in zip(self.counts.__struct_fields__, kept["counts"], strict=True):
            setattr(self.counts, name, value)

    def _group(self, key: Any) -> Any:
        """The part of a key that is the engine's own."""
        if not self._grouped:
            return None
        return key if self.node.by is None else key[0]


def _settling(output: Output, ts: int) -> int:
    """How long after `ts` an output would have settled had events come singly."""
    settled = output.cause[0] + output.slack
    when = output.detected_at if output.detected_at > settled else settled
    return when - ts if when > ts else 0
