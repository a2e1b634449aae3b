"""A stage: one detector behind its ordering unit. It drives the protocol, the same for all tactics.

A stage takes in what arrives in a batch, all at once, and tells its readers what that changes:

1. The ordering unit says which events may be handled now, and up to where order is certain.
2. Events that come too late are put aside if the policy says so, or if their history is gone.
3. The tactic handles the others. Events that land before handled ones, and handled events that were
   taken back from below, disturb their keys; these go back.
4. Old and new outputs are compared by identity, which is content: what is in both has not changed.
   With full retraction, all outputs since the disturbance are taken back and published again.
5. An output becomes final once everything up to its cause is settled and itself final.
6. What nobody can ask for any more is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from betimes.engine.load import Load, Span, StageMeter
from betimes.engine.news.making import OutputMaker
from betimes.engine.news.news import Heard, News, Void
from betimes.engine.news.outputs import NO_OUTPUTS, TS, Outputs
from betimes.engine.news.path import Path
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.certainty import CertainBelow, Newest, rises
from betimes.engine.stages.failures import Failures
from betimes.engine.stages.finality import Finality
from betimes.engine.stages.handed import first_handed
from betimes.engine.stages.lateness import Lateness
from betimes.engine.stages.observers import Observer
from betimes.engine.stages.rest import Rest
from betimes.engine.stages.retraction import Retraction
from betimes.engine.stages.tactic import (
    END,
    NOTHING,
    ColumnReplay,
    Ints,
    Moment,
    Replay,
    Setting,
    Tactic,
)
from betimes.engine.stages.telling import Telling
from betimes.engine.stats import DetectorStats, StageCounts
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.ordering import NEVER, OrderingUnit, holding_times, known_slack
from betimes.ordering.step import Step

_SILENCE = Telling()
"""Nothing is told."""


class Stage:
    """One detector, its ordering unit, and the tactic that runs it.

    It has more attributes than most classes, because each is one part of the protocol above.
    """

    def __init__(
        self,
        node: Node,
        level: int,
        unit: OrderingUnit,
        options: EngineOptions,
        *,
        clock: tuple[str, ...] | None,
        time: Callable[[], float],
        observers: Sequence[Observer] = (),
        cores: int | None = None,
        foresight: Any = None,
    ) -> None:
        self.node = node
        self.level = level
        self._unit = unit
        self.counts = StageCounts()
        self.finality = Finality(options.kept, self.counts)
        self.reads: tuple[str, ...] = ()
        """The detectors that publish what this one subscribes to."""
        self.sourced = options.source is not None
        """Whether each source has its own clock."""
        self._certain_below = CertainBelow()
        self._newest = Newest(clock)
        self._observers = tuple(observers)
        self._time = time
        self._load = StageMeter(self.counts)
        self._lateness = Lateness(options.late, node, self.counts)
        self._outputs = OutputMaker(node, level, options)
        self._failures = Failures.of(options)
        self._retraction = Retraction(options.retraction)
        setting = Setting(
            node, options, clock, self._outputs, self._failures, self._retraction, self.counts,
            time, cores, foresight,
        )  # fmt: skip
        self.tactic: Tactic = node.tactic(setting)
        self.rest = Rest(unit, self.tactic, setting, self.finality, allowed=not observers)
        self.voids = self.tactic.weighs and self._retraction.voids
        """Whether it may say that everything since some place is void."""
        repairs, given = self._lateness.repairs, len(clock or ()) == 1 and not self.sourced
        self._may_grow = repairs and given and unit.policy == "largest"
        self._only_grows = False
        """Whether the slack cannot shrink, and the clock cannot go back because it was wrong."""
        self._row = 0
        """The unit's number of the next arrival."""
        self._suspects: dict[int, tuple[Event, int]] = {}
        """Clock events in doubt, by the unit's row number, with their arrivals."""

    # One batch

    def arrivals(self, inputs: Inputs) -> Arrivals:
        """Sort out which input events of a batch arrive here; nothing is taken in yet."""
        return self.tactic.read(inputs)

    def step(self, arrivals: Arrivals, heard: Heard, first: int, *, blocks: bool = False) -> News:
        """Take in what arrives in a batch; `first` is the number of its first arrival.

        With `blocks`, each source of the batch may come as a block.
        """
        if heard.may_change_from is not None:
            self.finality.below = heard.may_change_from
        certain = self._certain_below.hear(arrivals.at, heard.certain) if heard.certain else NOTHING
        if not heard.quiet:
            self._hear(heard, first)
        elif arrivals.below is None:
            if not len(arrivals.at):
                return self._nothing()
            if arrivals.clock_only and self.rest.takes(arrivals):
                self.finality.settled = max(self.finality.settled, self.rest.settled)
                return self._settle(_SILENCE)
        told, unit, row = Telling(), self.unit, self._row
        self._row += len(arrivals.at)
        step = self._order(unit, arrivals.batch, certain, blocks=blocks)
        self.tactic.put(row, arrivals)
        # Most clock events release nothing; then there is nothing to handle or to tidy up.
        quiet = not (step.hands_out or heard.deleted or self.tactic.passed is not None)
        if not self._goes_on(step, arrivals, handles=not quiet):
            self._follow(arrivals, step, told, row)
            self._note_suspects(arrivals, step, row, told)
        if not quiet:
            last = arrivals.at.item(-1) if len(arrivals.at) else first
            self._handle(step, arrivals.at, row, last, self._outputs.path.time, told)
            self.tactic.tidy(unit.held_rows)
        return self._settle(told)

    def _order(self, unit: OrderingUnit, batch: EventBatch, certain: Ints, *, blocks: bool) -> Step:
        """What the ordering unit makes of a batch."""
        if not self._observers:
            return unit.order(batch, blocks=blocks, certain=certain)
        answer = unit.feed(batch, blocks=blocks, certain=certain)
        for observer in self._observers:
            observer.arrived(self, batch, answer)
        return answer.step

    def wait(self, event: Event, since: int | None) -> News:
        """An event was gathered that only waits, or moves the clock."""
        if since is not None:
            self.finality.below = since
        if not self.rest.sees(event.type):
            return self._nothing()
        self.finality.settled = max(self.finality.settled, self.rest.settled_ahead)
        return self._settle(_SILENCE)

    @property
    def unit(self) -> OrderingUnit:
        """The ordering unit, with everything that has arrived."""
        rest = self.rest
        if rest.moved:
            self._row += rest.wake()
            self._outputs.path = Path(rest.end)
        rest.disturb()
        return self._unit

    @property
    def clock(self) -> int | None:
        """Stream time; None before the first clock event."""
        return self.rest.clock if self.rest.moved else self._unit.clock

    def finish(self, last: int, time: int) -> News:
        """The stream has ended at this time: handle what is left; everything becomes final."""
        told = Telling()
        self._outputs.path = Path(self._outputs.path.end)
        answer = self.unit.finish()
        for observer in self._observers:
            observer.arrived(self, EventBatch.concat([]), answer)
        self._handle(answer.step, np.array([last]), 0, last, time, told, ends=True)
        return self._settle(told)

    def _hear(self, heard: Heard, first: int) -> None:
        """Take note of what the stages below have taken back, confirmed and published."""
        finality, unsure = self.finality, self.finality.unsure
        for output in heard.deleted:
            unsure.pop(output.id, None)
            if output.id in self._lateness.aside:
                self._lateness.aside.discard(output.id)
                continue
            waiting = self.tactic.withdraw(output, first, finality.final_to)
            if waiting is not None:
                self.unit.discard([waiting])
        for output_id in heard.confirmed.ids:
            unsure.pop(output_id, None)
        if len(heard.provisional):
            times = heard.provisional.numbers[TS].tolist()
            unsure.update(zip(heard.provisional.ids, times, strict=True))

    def _handle(
        self,
        step: Step,
        at: Ints,
        row: int,
        last: int,
        time: int,
        told: Telling,
        *,
        ends: bool = False,
    ) -> None:
        """Let the tactic handle what the unit hands out, and publish the results."""
        finality = self.finality
        events, rows = self.tactic.take(*first_handed(step, at, row))
        events = self._lateness.sift(events, rows, finality, self._outputs.path, told)
        if ends:
            finality.settled = END
            finality.unsure.clear()
        moment = Moment(finality.certain(), finality.final_to, finality.reach, last, time)
        for each in self.tactic.handle(events, moment):
            if isinstance(each, Replay):
                self._republish(each, told)
            elif len(each):
                told.made.append(each)

    # Order

    def _follow(self, arrivals: Arrivals, step: Step, told: Telling, row: int) -> None:
        """Note the path of clock and slack, how far order is certain, and what comes too late."""
        clock, slack = step.path()
        before = self._outputs.path.end
        self._newest.follow(arrivals, clock)
        bounds = self._pass_time(clock, slack)
        inputs_only = arrivals.below is None
        told_slack = known_slack(clock, slack) if self.sourced else slack
        path = Path(before, arrivals.at, clock, told_slack, bounds, increasing=inputs_only)
        self._outputs.path = path
        if not len(clock):
            return
        finality, repairs = self.finality, self._lateness.repairs
        slack_before = 0 if before[0] == NEVER else before[1]
        self._only_grows = self._may_grow and self._unit.sure_clock is not None
        # Until something has been learned, the newest instant stays open.
        certain = self._newest.limit(clock - np.maximum(slack, 1))
        certain[clock == NEVER] = -1  # before the first clock event, or when it was a mistake
        if not repairs:
            self._lateness.note(arrivals, certain, finality.settled, row)
        if self.sourced:
            # The levels above follow this instead of learning the slack.
            told.certain = rises(arrivals.at, certain, finality.settled)
        finality.settled = max(finality.settled, int(certain.max()))
        if not self.sourced and (slack[-1] != slack_before or self._unit.policy != "largest"):
            known = np.where(clock == NEVER, 0, slack)
            for index in np.flatnonzero(np.diff(known, prepend=slack_before) > 0).tolist():
                ts = max(int(clock[index] - slack[index]), 0)
                told.notices.append((int(arrivals.at[index]), ts))

    def _goes_on(self, step: Step, arrivals: Arrivals, *, handles: bool) -> bool:
        """Do the same in the most common case: the clock goes on, and the slack is what it was."""
        if not (self._only_grows and len(arrivals.at)) or self._suspects:
            return False
        known, slack = end = self._outputs.path.end
        if known == NEVER or step.last_slack != slack or not step.undoubted:
            return False
        clock = step.last_clock
        if handles:
            clocks, slacks = step.path()
            bounds, ordered = self._pass_time(clocks, slacks), arrivals.below is None
            path = Path(end, arrivals.at, clocks, slacks, bounds, increasing=ordered)
        else:
            path = Path((clock, slack))  # nobody asks for more
        self._outputs.path = path
        self.finality.settled = max(self.finality.settled, clock - max(slack, 1))
        return True

    def _pass_time(self, clock: Ints, slack: Ints) -> Ints:
        """How far time comes with each arrival, if the detector has deadlines.

        It comes as far as events are released, and not beyond the newest one.
        """
        passed = self.tactic.passed
        if passed is None:
            return NOTHING
        waited = holding_times(self._unit.attenuation, slack)
        reached = self._newest.limit(np.where(clock == NEVER, -1, clock) - waited)
        bounds = np.concatenate(([passed], reached))
        return np.maximum.accumulate(bounds)

    def _note_suspects(self, arrivals: Arrivals, step: Step, row: int, told: Telling) -> None:
        """Report clock events that were rejected; remember those that still may be."""
        rejected, open_ = step.rejected, self._unit.suspect_rows
        if not (len(rejected) or open_ or self._suspects):
            return
        for number in rejected.tolist():
            known = self._suspects.pop(number, None)
            told.rejected.append(known or arrivals.one(number - row))
        self._suspects = {
            number: self._suspects.get(number) or arrivals.one(number - row) for number in open_
        }

    # Outputs

    def _republish(self, replay: Replay, told: Telling) -> None:
        """Publish what a replay changed: the differences, or everything if retraction is full."""
        for observer in self._observers:
            observer.replayed(self, replay.key, replay.handled)
        if isinstance(replay, ColumnReplay):
            told.take_back(replay.gone, replay.why)
            told.made.append(replay.fresh)
            return
        if self.tactic.weighs:
            self._retraction.note(
                spared=replay.spared, comparing=replay.comparing, handling=replay.process
            )
        old, new, stay = replay.old, replay.new, replay.stay
        if not self.voids and len(old) == len(new) == len(stay):
            return
        gone = [output for output in old if output.id not in stay] if stay else old
        if not self.voids:
            told.take_back(Outputs.of(gone), replay.why)
        elif old or new:
            # A per-batch detector may get its events in other batches this time, and so report
            # other causes.
            since = min([replay.place, *(output.cause for output in gone)])
            gone = [output for output in old if output.cause >= since]
            stay = stay.difference(output.id for output in gone)
            told.void(Void(replay.key, since, str(replay.why)), Outputs.of(gone))
        fresh = [output for output in new if output.id not in stay] if stay else new
        if fresh:
            told.made.append(Outputs.of(fresh))

    def _nothing(self) -> News:
        """Nothing has happened."""
        finality = self.finality
        return News(may_change_from=finality.may_change_from(), reach=finality.reach)

    def _settle(self, told: Telling) -> News:
        """Outputs are published or become final; what nobody can ask for any more is forgotten."""
        finality, before = self.finality, self.finality.reach
        made = gone = NO_OUTPUTS
        final, nothing = None, told.nothing
        if not nothing:
            made, gone = told.outputs()
            if len(gone):
                finality.withdraw(gone)
                self.counts.retracted += len(gone)
            if len(made):
                final = finality.publish(made)
        finality.advance()
        confirmed = NO_OUTPUTS if finality.final_to < finality.soonest else finality.confirmed()
        reach = finality.move_horizon()
        if self._failures:
            self.counts.errors += self._failures.judge(finality.final_to)
        if reach > before:
            self._failures.forget(reach)
            for outputs in self.tactic.forget(reach):
                self._outputs.unmake(outputs)
        for observer in self._observers:
            if len(gone):
                observer.retracted(self, gone)
            if len(made):
                observer.made(self, made)
            observer.settled(self, finality.final_to)
        if nothing and confirmed is NO_OUTPUTS and told.certain is None:
            return self._nothing()
        return told.news(made, final, confirmed, finality.may_change_from(), reach)

    # Readings

    def was_busy_since(self, began: float) -> float:
        """Note how long the stage was at work; return the time."""
        now = self._time()
        self.counts.busy += now - began
        return now

    def load(self) -> Load:
        """What the stage did since the last call; what was put aside has no effect on the slack."""
        return self._load.read(self._unit.stats.slack)

    def stats(self, span: Span) -> DetectorStats:
        """Readings; the last load is that of `span`."""
        unit = self.unit.stats
        snapshots, snapshot_bytes = self.tactic.snapshots()
        return DetectorStats(
            detector=self.node.name,
            level=self.level,
            clock=unit.clock,
            slack=unit.slack,
            delays=unit.delays,
            attenuation=unit.attenuation,
            buffered=unit.buffered,
            waiting=unit.waiting,
            remembered=self.tactic.remembered,
            history_bytes=sum(size for _, size in self.tactic.history()),
            released=unit.released,
            snapshots=snapshots,
            snapshot_bytes=snapshot_bytes,
            retraction=f"{self._retraction.technique}: {self._retraction.reason}",
            waits_for=unit.waits_for,
            busy_share=self._load.last.busy / span.seconds if self._load.last else 0.0,
            busy_factor=span.busy_factor,
            parts=self.tactic.parts(),
            **self.counts.readings(),
        )

    # Checkpoints

    def state_of(self, volumes: VolumeWriter) -> dict[str, Any]:
        """Everything needed to resume elsewhere, as data; history is in volumes."""
        return {
            **self.finality.state_of(),
            "unit": self.unit.state_of(),
            "row": self._row,
            "lateness": self._lateness.state_of(),
            "suspects": self._suspects,
            "before": self._outputs.path.end,
            "certain_below": self._certain_below.known,
            "newest": self._newest.ts,
            "failures": self._failures.state_of(),
            "counts": [getattr(self.counts, name) for name in self.counts.__struct_fields__],
            "tactic": self.tactic.state_of(volumes, self.finality.final_to),
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        """Resume from what `state_of` kept."""
        self.finality.resume(kept)
        self.unit.resume(kept["unit"])
        self._row, self._suspects = kept["row"], kept["suspects"]
        self._outputs.path = Path(kept["before"])
        self._certain_below.known, self._newest.ts = kept["certain_below"], kept["newest"]
        self._lateness.resume(kept["lateness"])
        self._failures.resume(kept["failures"])
        for name, value in zip(self.counts.__struct_fields__, kept["counts"], strict=True):
            setattr(self.counts, name, value)
        self.tactic.resume(kept["tactic"], volumes)
        outputs = self.tactic.outputs()
        self._outputs.resume(outputs)
        self.finality.reopen(outputs, kept["open"])
