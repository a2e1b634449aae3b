"""Handling events one by one, and going back.

Events that follow all others are handled in segments; when a segment first touches a key, the key's
state is saved in the segment's undo log. A disturbed key is restored from the first undo log at or
after the disturbance that has it, and its events, and no others, are handled again. On demand, this
ends at the first later segment where the state is the same as before: everything after that still
holds, including the current state of the detector.

Executing a detector, and committing what it made by giving it identity, place and time, are two
steps: `Execution` does the first, `OutputMaker` the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from betimes.engine.news.digests import encode
from betimes.engine.news.outputs import TIME, Output, Place
from betimes.engine.snapshots.segments import Segments
from betimes.engine.snapshots.spacing import Costs, parse_snapshots
from betimes.engine.snapshots.states import ABSENT, Snapshot
from betimes.engine.stages.execution import Done, Execution
from betimes.engine.stages.rows.deadlines import Deadlines
from betimes.engine.stages.rows.detectors import Detectors
from betimes.engine.stages.rows.grouping import by_row, in_row_order, rows_by_key, split_due
from betimes.engine.stages.rows.history import EventRows, RowSegment
from betimes.engine.stages.rows.when import When
from betimes.engine.stages.runner import DetectorFailed, Due, Made
from betimes.engine.stages.tactic import Disturbance, Replay, Setting
from betimes.model.event import Event


class RowReplay(Replay):
    """A replay that looks up arrivals only if something new was made."""

    handed: list[tuple[EventRows, list[int]]] = msgspec.field(default_factory=list)
    """Events whose arrivals have not been looked up yet."""

    def newest(self) -> int:
        """The newest arrival so far."""
        for events, rows in self.handed:
            self.at = max([self.at, *map(events.at.item, rows)])
        self.handed.clear()
        return self.at


class Handling:
    """The detectors of one stage, what they have handled, and how they go back.

    Some attributes are shortcuts into the setting: they are asked for with every output.
    """

    def __init__(self, setting: Setting) -> None:
        self.history: Segments[RowSegment] = Segments()
        self.costs = Costs()
        self.timed = setting.node.maker.timed
        self.passed = -1
        """How far time has come for detectors that have deadlines."""
        self._begun: Place = self.history.last
        """The last place that was handled before this batch."""
        self._reopened: set[Any] = set()
        """Keys that went back in this batch: deadlines that have passed have to pass again."""
        self._touched = 0
        """How many keys had events in this batch, at most."""
        self._followed: set[Any] = set()
        """Keys of late events in this batch that were handled without going back."""
        self._is_batch = setting.node.maker.kind == "batch"
        self._simple = not (self.timed or self._is_batch)
        """Whether its detectors only know events, which they get one by one."""
        self._setting = setting
        self._outputs = setting.outputs
        self._failures = setting.failures
        self._spacing = parse_snapshots(setting.options.snapshots)
        self.execution = Execution(setting.node)
        self.detectors = Detectors(
            self.execution, self.costs, setting.counts, setting.time, self.history.segments
        )
        self.deadlines = Deadlines(self.detectors)

    def note_batch(self, disturbed: Collection[Disturbance]) -> None:
        """A batch is done: note how many keys it has touched, and how many of them went back."""
        breaches = sum(disturbance.breach for disturbance in disturbed)
        touched = max(self._touched, len(self._followed), len(disturbed), 1)
        self.costs.note_batch(len(disturbed), breaches, touched)
        self._touched = 0
        self._followed.clear()

    # Forward

    def append(self, events: EventRows, start: int, certain: int) -> list[Output]:
        """Handle the events from `start` on, which follow all others; return the outputs.

        Only an event delayed by more than the slack can disturb the first `certain` events.
        """
        segments = self.history.segments
        when, outputs, count = When(events), list[Output](), len(events)
        self._begun = self.history.last
        while start < count:
            speculative = start >= certain
            length = self._spacing.length(self.costs, speculative=speculative)
            room = length - segments[-1].size if segments else 0
            if room <= 0:
                self._begin(events.place(start))
                room = length
            end = min(start + room, count if speculative else certain)
            whole = start == 0 and end == count
            part = events if whole else events.part(start, end)
            outputs += self._handle(part, segments[-1], when, start)
            start = end
        return outputs

    def _begin(self, place: Place) -> None:
        """Begin a segment: every key that it touches is saved first."""
        self.history.segments.append(RowSegment(place))
        self.detectors.ready.clear()

    def _handle(
        self, events: EventRows, segment: RowSegment, when: When, start: int
    ) -> list[Output]:
        """Handle events as part of the last segment; in the batch, they begin at `start`."""
        known, count = len(segment.undo), len(events)
        if segment.indexed:
            events.make()  # keys go back to it, so they will be asked for again
        time = self._setting.time
        began = time()
        made = self._run_forward(segment, events)
        self.costs.note_run(time() - began, count, len(segment.undo) - known)
        self.history.last = last = events.place(count - 1)
        segment.extend(events, last)
        self._setting.counts.handled += count
        if not made.rows:
            return []
        commit = self._commit_timed if self.timed else self._commit
        return commit(segment, events, made, when, start)

    def _commit(
        self, segment: RowSegment, events: EventRows, made: Made, when: When, start: int
    ) -> list[Output]:
        """The outputs of events of a segment; in the batch, these begin at `start`."""
        rows = made.rows
        keys = [events.key(row) for row in rows]
        outputs = self._outputs.make_all(
            made.events,
            [events.place(row) for row in rows],
            [events.type(row) for row in rows],
            when.made([start + row for row in rows]),
            keys,
        )
        mine = segment.outputs
        for key, output in zip(keys, outputs, strict=True):
            mine.setdefault(key, []).append(output)
        return outputs

    def _commit_timed(
        self, segment: RowSegment, events: EventRows, made: Made, when: When, start: int
    ) -> list[Output]:
        """The same, if deadlines may have passed between the events."""
        outputs: list[Output] = []
        for row, items in by_row(made):
            (at,) = when.made([start + row])
            key, place = events.key(row), events.place(row)
            due, items = split_due(items)
            mine = self._make_due(due, key, when.known(start + row), at) if due else []
            cause = events.type(row)
            for n, event in enumerate(items):
                mine.append(self._outputs.make(event, n, place, cause, at, key))
            segment.outputs.setdefault(key, []).extend(mine)
            outputs += mine
        return outputs

    def follows(self, key: Any, place: Place) -> bool:
        """Whether everything that was handled for a key is certainly before a place."""
        if not self._simple:
            return False
        for segment in reversed(self.history.segments):
            if key in segment.undo:
                rows, columns = segment.rows(key), segment.columns
                return bool(rows) and columns is not None and columns.place(rows[-1]) < place
            if segment.start <= place:
                return True
        return True

    def follow(
        self, number: int, key: Any, place: Place, event: Event, at: int
    ) -> list[Output] | None:
        """Handle an event of this segment that follows all others of its key.

        If the detector fails, the answer is None, and the key has to go back.
        """
        self._followed.add(key)
        segments = self.history.segments[: number + 1]
        method = self.detectors.touch(segments, key)
        try:
            _, made = self.execution.runner.run(method, [event])
        except DetectorFailed:
            return None
        if made:
            make, outputs = self._outputs.make, segments[-1].outputs.setdefault(key, [])
            made = [make(each, n, place, event.type, at, key) for n, each in enumerate(made)]
            outputs += made
            segments[-1].kept = None
        return made

    def _run_forward(self, segment: RowSegment, events: EventRows) -> Made:
        """Hand events to their detectors; if one fails, do it again with care."""
        try:
            made = self._run(segment, events)
            self.execution.try_state(next(iter(self.detectors.by_key.values())))
            return made
        except DetectorFailed:
            return self._run_with_care(segment, events)

    def _run(self, segment: RowSegment, events: EventRows) -> Made:
        runner, ready, keys = self.execution.runner, self.detectors.ready, events.keys
        if keys is None:
            self._touched = 1
            return runner.run(ready[None], events.events)
        if not self._is_batch:
            made = runner.run_keyed(ready, events.events, keys)
            self._touched = max(self._touched, min(len(events), len(segment.undo)))
            return made
        by_key = rows_by_key(events)
        self._touched = max(self._touched, len(by_key))
        return in_row_order([
            (mine[row], event)
            for key, mine in by_key.items()
            for row, event in zip(*runner.run(ready[key], events.some(mine)), strict=True)
        ])  # fmt: skip

    def _run_with_care(self, segment: RowSegment, events: EventRows) -> Made:
        """Start from the states before the segment, key by key, and leave out what fails."""
        carefully: list[tuple[int, Any]] = []
        for key, mine in rows_by_key(events).items():
            self.detectors.touch(self.history.segments, key)
            saved = self._before_failure(segment, key, self.passed)
            done = self.execution.run_with_care(saved, events.some(mine))
            self._note(key, events, mine, done)
            carefully += [(mine[row], e) for row, e in zip(*done.made, strict=True)]
            self.detectors.install(key, done.detector)
        return in_row_order(carefully)

    def _note(self, key: Any, events: EventRows, rows: list[int], done: Done) -> None:
        """Note where the detector of a key fails; `rows` are those that were executed."""
        for row, failure in done.failures:
            self._failures.note(key, events.place(rows[row]), failure)
        self._note_overdue(key, done.overdue)

    def _note_overdue(self, key: Any, overdue: list[tuple[int, DetectorFailed]]) -> None:
        for deadline, failure in overdue:
            self._failures.note(key, (deadline, TIME, encode(key)), failure)

    def _before_failure(self, segment: RowSegment, key: Any, passed: int) -> Snapshot:
        """The state that a key had after all that the segment has handled so far.

        Before this batch, time had passed to `passed`.
        """
        execution, columns = self.execution, segment.columns
        saved, rows = segment.undo[key], [] if columns is None else segment.rows(key)
        if columns is None or not self.timed:
            parts = [rows]
        else:
            old = bisect_right(rows, self._begun, key=columns.place)
            parts = [rows[:old], rows[old:]]
        for number, part in enumerate(parts):
            if part and columns is not None:
                done = execution.run_with_care(saved, columns.some(part))
                saved = execution.states.take(done.detector)
            if number == 0 and self.timed and key not in self._reopened:
                # What these deadlines made was published when they passed, before this batch.
                saved = execution.states.take(execution.pass_time(saved, passed).detector)
        return saved

    # Time

    def run_out(self, ts: int, known: dict[Any, int], at: int) -> Iterator[list[Output]]:
        """Let time pass up to `ts`: call the detectors whose deadlines have passed, in order.

        `known` says with which arrivals the events of touched keys were known.
        """
        self.deadlines.arm(known)
        before = self.passed
        self.passed = ts = max(self.passed, ts)
        segments = self.history.segments
        for deadline, key in self.deadlines.due(ts):
            if not segments:
                self._begin((deadline, TIME, b""))
            segment = segments[-1]
            method = self.detectors.touch(segments, key)
            try:
                made, last = self.execution.runner.run_until(method, ts), method.passed
            except DetectorFailed:
                saved = self._before_failure(segment, key, before)
                made, detector, last, overdue = self.execution.pass_time(saved, ts)
                self.detectors.install(key, detector)
                self._note_overdue(key, overdue)
            # An event before a deadline that has passed disturbs its key like any late event.
            segment.last, segment.kept = max(segment.last, (last, TIME, b"")), None
            self.history.last = max(self.history.last, segment.last)
            self.deadlines.arm([key])
            outputs = self._make_due(made, key, known.get(key, -1), at)
            segment.outputs.setdefault(key, []).extend(outputs)
            yield outputs
        self._reopened.clear()

    def _make_due(self, made: list[Due], key: Any, newest: int, at: int) -> list[Output]:
        """Outputs of deadlines, made once time had come there and everything before was known."""
        outputs = []
        for ts, items in groupby(made, key=attrgetter("ts")):
            cause = (ts, TIME, encode(key))
            when = self._outputs.path.reaches(ts)
            when = min(at, max(when, newest)) if max(when, newest) >= 0 else at
            outputs += [
                self._outputs.make(due.event, n, cause, "time", when, key)
                for n, due in enumerate(items)
            ]
        return outputs

    # Back

    def replay(self, key: Any, disturbance: Disturbance) -> Replay:
        """Handle the events of a key again, from the snapshot before its first disturbance."""
        time, states = self._setting.time, self.execution.states
        replay = RowReplay(
            key, disturbance.place, disturbance.at, self._setting.retraction.on_demand
        )
        replay.process = self.costs.process
        affected = self.history.segments[disturbance.first :]
        since = disturbance.place
        saved = self.detectors.before(key, affected)
        # A copy: if the replay reaches the same state, the known detector stays in place.
        detector = None if saved is ABSENT else states.restore(saved)
        for segment in affected:
            if key in segment.outputs:
                self._outputs.unmake(segment.outputs[key])
                replay.why = disturbance.why
        for index, segment in enumerate(affected, disturbance.first):
            rows = segment.rows(key)
            if not rows:
                if key in segment.undo or key in segment.outputs:
                    segment.kept = None
                    segment.undo.pop(key, None)
                    replay.old += segment.outputs.pop(key, ())
                continue
            if replay.on_demand and index > disturbance.last and key in segment.undo:
                began = time()
                same = self.detectors.is_at(detector, segment.undo[key])
                replay.comparing += time() - began
                if same:
                    self._spare(replay, key, affected[index - disturbance.first :])
                    return replay
            segment.kept = None
            if saved is None:
                before = segment.undo.get(key)
                saved = states.take(detector, None if before is ABSENT else before)
            segment.undo[key] = saved
            saved = None
            if detector is None:
                detector = states.make()
            detector, since = self._again(replay, segment, rows, detector, since)
        self._failures.mend(key, since)
        self.detectors.install(key, detector)
        if self.timed:
            self._reopened.add(key)
        return replay

    def _spare(self, replay: Replay, key: Any, rest: list[RowSegment]) -> None:
        """These segments need not be handled again: what they made still holds."""
        replay.spared = sum(len(segment.rows(key)) for segment in rest)
        for segment in rest:
            self._outputs.keep(segment.outputs.get(key, ()), replay.new)

    def _again(
        self, replay: RowReplay, segment: RowSegment, rows: list[int], detector: Any, since: Place
    ) -> tuple[Any, Place]:
        """Handle the events of a key, these rows of one segment, again; outputs that recur stay.

        Failures since a place may vanish. Returns the detector, and up to where that was so.
        """
        events, key = segment.columns, replay.key
        assert events is not None
        old = segment.outputs.pop(key, [])
        done = self.execution.execute(detector, segment.undo[key], events.some(rows))
        last = events.place(rows[-1])
        if self._failures:
            self._failures.mend(key, min(since, events.place(rows[0])), last)
        if done.failures or done.overdue:
            self._note(key, events, rows, done)
        replay.handled += len(rows)
        replay.old += old
        if done.made.rows:
            segment.outputs[key] = after = self._commit_again(replay, events, rows, done.made, old)
            replay.new += after
        else:
            replay.handed.append((events, rows))
        return done.detector, (last[0] + 1, TIME, b"")  # deadlines up to its time came before it

    def _commit_again(
        self, replay: RowReplay, events: EventRows, rows: list[int], made: Made, old: list[Output]
    ) -> list[Output]:
        """The outputs of a key in one segment; those that were known stay what they were."""
        key, known = replay.key, {(output.cause, output.number): output for output in old}
        after: list[Output] = []
        same: list[str] = []
        finished = 0
        for number, items in by_row(made):
            place, cause = events.place(rows[number]), events.type(rows[number])
            if type(items[0]) is Due:
                due, items = split_due(items)
                replay.handed.append((events, rows[finished:number]))
                finished = number
                before = replay.newest()
                after += self._make_due(due, key, before, max(before, events.at.item(rows[number])))
            for n, event in enumerate(items):
                output = known.get((place, n))
                if output is not None and self._outputs.makes_again(output, event):
                    same.append(output.id)
                else:
                    replay.handed.append((events, rows[finished : number + 1]))
                    finished = number + 1
                    output = self._outputs.make(event, n, place, cause, replay.newest(), key)
                after.append(output)
        replay.handed.append((events, rows[finished:]))
        replay.stay.update(same)
        if len(same) < len(after) and old:
            after, stay = self._outputs.again(old, after)
            replay.stay |= stay
        return after
