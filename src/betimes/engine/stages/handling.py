"""Handling events: detectors by key, the snapshots of their states, and going back.

Events that follow all others are handled in segments; when a segment first touches a key, the key's
state is saved in the segment's undo log. A disturbed key is restored from the first undo log at or
after the disturbance that knows it, and its events, nobody else's, are handled again. On demand,
that ends at the first later segment before which the state is what it was: all that comes after
still holds, and so does the detector as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count, groupby
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from betimes.engine.hierarchy import Node
from betimes.engine.news.news import TIME, Output, Place
from betimes.engine.news.outputs import OutputMaker, encode
from betimes.engine.snapshots.spacing import Costs, SnapshotModel
from betimes.engine.snapshots.states import Snapshot, Snapshotter
from betimes.engine.stages.history import ABSENT, Columns, History, Segment, pick
from betimes.engine.stages.runner import DetectorFailed, Due, Made, Runner
from betimes.engine.stats import StageCounts
from betimes.model.event import Event

_SAMPLE = 8
"""One of so many snapshots is timed: to ask for the time takes as long as a small snapshot."""


class Disturbance(msgspec.Struct):
    """What happened to the past of a key: in which segments, why, and at which arrival."""

    first: int
    last: int
    place: Place
    """The earliest place that is not what it was."""
    cause: tuple[str, Event]
    """What happened (late, retracted), and to which event."""
    at: int
    breach: bool
    """Whether it goes back to before what was certain."""

    @property
    def why(self) -> str:
        what, event = self.cause
        return f"{what} {event.type} at {event.ts}"

    def add(self, other: Disturbance) -> None:
        """Something else happened to the same key."""
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.place = min(self.place, other.place)
        self.at = max(self.at, other.at)
        self.breach = self.breach or other.breach


class Replay(msgspec.Struct):
    """What going back led to: outputs before and after, and what on-demand retraction paid."""

    at: int
    """The newest arrival among what was handled."""
    old: list[Output] = []
    new: list[Output] = []
    handled: int = 0
    spared: int = 0
    """Events that did not have to be handled again."""
    comparing: float = 0.0
    """Seconds spent to find out."""
    silent: list[tuple[Columns, list[int]]] = []
    """Events of which nothing was made, and whose arrivals nobody has asked for."""

    def newest(self) -> int:
        """The newest arrival so far."""
        for columns, rows in self.silent:
            self.at = max(self.at, int(columns.at[rows].max()))
        self.silent.clear()
        return self.at


class When:
    """With which arrivals the events of a batch, and all before them of their keys, were known."""

    def __init__(self, columns: Columns) -> None:
        self._at, self._keys = columns.at, columns.keys
        self._newest = np.maximum.accumulate(self._at)

    def made(self, row: int) -> int:
        """When something could be made of this event."""
        at = int(self._at[row])
        if self._keys is None or self._newest[row] == at:
            return int(self._newest[row])
        later = np.flatnonzero(self._at[:row] > at).tolist()
        mine = [int(self._at[n]) for n in later if self._keys[n] == self._keys[row]]
        return max(mine, default=at)

    def known(self, row: int) -> int:
        """When all before it of its key were known; -1 if there is none."""
        before = self._at[:row]
        if self._keys is None:
            return int(before.max(initial=-1))
        mine = [n for n in range(row) if self._keys[n] == self._keys[row]]
        return int(before[mine].max(initial=-1))


class Handling:
    """The detectors of one stage, their history, and the way back."""

    def __init__(
        self,
        node: Node,
        outputs: OutputMaker,
        counts: StageCounts,
        *,
        snapshots: SnapshotModel,
        time: Callable[[], float],
    ) -> None:
        self.history = History()
        self.costs = Costs()
        self._outputs = outputs
        self._counts = counts
        self._spacing = snapshots
        self._time = time
        self._is_batch = node.maker.kind == "batch"
        self._snapshotter = Snapshotter(node.maker, node.name)
        self._runner = Runner(node)
        self._tried = self._snapshotter.stateless
        self.failures: dict[tuple[Any, Place], DetectorFailed] = {}
        self.judged: set[tuple[Any, Place]] = set()
        self._detectors: dict[Any, Any] = {}
        self._methods: dict[Any, Any] = {}
        self._timed = node.maker.timed
        self.time = -1
        """How far time has come for detectors that have deadlines."""
        self._armed: dict[Any, int] = {}
        self._known: dict[Any, int] = {}
        self._deadlines: list[tuple[int, int, Any]] = []
        self._count = count()

    def snapshots(self) -> dict[Any, Snapshot]:
        """The state of every key, as it is now."""
        return {key: self._snapshotter.take(detector) for key, detector in self._detectors.items()}

    def resume(self, snapshots: dict[Any, Snapshot]) -> None:
        """Go on from states that were kept."""
        for key, snapshot in snapshots.items():
            self._install(key, self._snapshotter.restore(snapshot))
        if self._timed:
            self.arm(dict.fromkeys(snapshots, -1))

    # Forward

    def append(self, columns: Columns, start: int, certain: int) -> Iterator[list[Output]]:
        """Handle the events from `start` on, which follow all others; yield what is made.

        The first `certain` events can only be disturbed by one that breaks the slack.
        """
        segments = self.history.segments
        when = When(columns)
        while start < len(columns):
            speculative = start >= certain
            length = self._spacing.length(self.costs, speculative=speculative)
            room = length - segments[-1].size if segments else 0
            if room <= 0:
                segments.append(Segment(columns.place(start)))
                room = length
            end = min(start + room, len(columns) if speculative else certain)
            whole = start == 0 and end == len(columns)
            part = columns if whole else columns.part(start, end)
            yield from self._handle(part, segments[-1], when, start)
            start = end

    def _handle(
        self, columns: Columns, segment: Segment, when: When, start: int
    ) -> Iterator[list[Output]]:
        """Handle events as part of the last segment; they are the batch's from `start` on."""
        known = len(segment.undo)
        began = self._time()
        made = self._run_forward(segment, columns)
        self.costs.note_run(self._time() - began, len(columns), len(segment.undo) - known)
        segment.extend(columns)
        self.history.last = columns.place(len(columns) - 1)
        self._counts.handled += len(columns)
        make = self._outputs.make
        for number, items in _by_number(made):
            key = columns.key(number)
            place, cause = columns.place(number), columns.events[number]
            at = when.made(start + number)
            mine = []
            if self._timed and type(items[0]) is Due:
                due, items = _split_due(items)
                mine += self._make_due(due, key, when.known(start + number), at)
            mine += [make(event, n, place, cause, at, key) for n, event in enumerate(items)]
            segment.outputs.setdefault(key, []).extend(mine)
            yield mine

    # Time

    def arm(self, known: dict[Any, int]) -> None:
        """Note the deadlines of these keys, and with which arrivals their events were known."""
        self._known = known
        for key in known:
            self._arm(key)

    def _arm(self, key: Any) -> None:
        detector = self._detectors.get(key)
        deadline = None if detector is None else detector.deadline
        if deadline is not None and self._armed.get(key) != deadline:
            self._armed[key] = deadline
            heappush(self._deadlines, (deadline, next(self._count), key))

    def run_out(self, ts: int, at: int) -> Iterator[list[Output]]:
        """Time has come to `ts`: call the detectors whose deadlines have passed, in order.

        A key that went back has deadlines of the past again, and is called for them again.
        """
        self.time = ts = max(self.time, ts)
        while self._deadlines and self._deadlines[0][0] <= ts:
            deadline, _, key = heappop(self._deadlines)
            if self._armed.get(key) == deadline:
                del self._armed[key]
            detector = self._detectors.get(key)
            if detector is None or detector.deadline is None or detector.deadline > ts:
                continue  # not any more
            if not self.history.segments:
                self.history.segments.append(Segment((deadline, TIME, b"")))
            segment = self.history.segments[-1]
            method = self._touch(segment, key)
            made = self._runner.run_until(method, ts)
            # An event that stands before a deadline which has passed disturbs like any late one.
            segment.last = max(segment.last, (method.passed, TIME, b""))
            self.history.last = max(self.history.last, segment.last)
            self._arm(key)
            outputs = self._make_due(made, key, self._known.get(key, -1), at)
            segment.outputs.setdefault(key, []).extend(outputs)
            yield outputs

    def _make_due(self, made: list[Due], key: Any, newest: int, at: int) -> list[Output]:
        """Outputs of deadlines, made when time had come there and what stands before was known."""
        outputs = []
        for ts, items in groupby(made, key=attrgetter("ts")):
            cause, event = (ts, TIME, encode(key)), Event("time", ts)
            when = self._outputs.path.reaches(ts)
            when = min(at, max(when, newest)) if max(when, newest) >= 0 else at
            outputs += [
                self._outputs.make(due.event, n, cause, event, when, key)
                for n, due in enumerate(items)
            ]
        return outputs

    def _run_forward(self, segment: Segment, columns: Columns) -> list[Made]:
        """Hand events to their detectors; if one fails, do it again with care."""
        try:
            made = self._run(segment, columns)
            if not self._tried:
                # A state that cannot be saved is better known now than when it must be.
                self._snapshotter.take(next(iter(self._detectors.values())))
                self._tried = True
            return made
        except DetectorFailed:
            rows: dict[Any, list[int]] = {}
            for row in range(len(columns)):
                rows.setdefault(columns.key(row), []).append(row)
            carefully: list[Made] = []
            for key, mine in rows.items():
                saved = segment.undo.get(key, ABSENT)
                segment.undo[key] = saved
                detector = self._from(saved)
                if segment.columns is not None:
                    _, detector = self._with_care(key, segment.columns, segment.rows(key), detector)
                made, detector = self._with_care(key, columns, mine, detector)
                carefully += made
                self._install(key, detector)
            return sorted(carefully, key=lambda pair: pair[0])

    def _from(self, saved: Snapshot) -> Any:
        return self._snapshotter.make() if saved is ABSENT else self._snapshotter.restore(saved)

    def _with_care(
        self, key: Any, columns: Columns, rows: list[int], detector: Any
    ) -> tuple[list[Made], Any]:
        """Hand events over one by one; where the detector fails, it goes on as if not asked.

        The failure is noted: it may be the fault of an event that has not arrived yet, and only
        counts if it still stands when the place is final.
        """
        made: list[Made] = []
        for row in rows:
            saved = self._snapshotter.take(detector)
            place = (key, columns.place(row))
            self.failures.pop(place, None)
            try:
                method = self._runner.method(detector)
                made += [
                    (row, event) for _, event in self._runner.run(method, [columns.events[row]])
                ]
            except DetectorFailed as failure:
                if place not in self.judged:
                    self.failures[place] = failure
                detector = self._snapshotter.restore(saved)
        return made, detector

    def _run(self, segment: Segment, columns: Columns) -> list[Made]:
        keys, events = columns.keys, columns.events
        touch = partial(self._touch, segment)
        if keys is None:
            return self._runner.run(touch(None), events)
        if not self._is_batch:
            # Methods of the keys that the segment has touched: one look-up an event.
            methods = {key: self._methods[key] for key in segment.undo}
            return self._runner.run_keyed(methods, touch, events, keys)
        rows: dict[Any, list[int]] = {}
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)
        made = [
            (mine[number], event)
            for key, mine in rows.items()
            for number, event in self._runner.run(touch(key), pick(events, mine))
        ]
        return sorted(made, key=lambda pair: pair[0])

    def _touch(self, segment: Segment, key: Any) -> Any:
        """Save the state of a key before the segment changes it first; return its method."""
        if key in segment.undo:
            return self._methods[key]
        detector = self._detectors.get(key)
        if detector is None:
            segment.undo[key] = ABSENT
            self._install(key, self._snapshotter.make())
        elif self._snapshotter.stateless:
            segment.undo[key] = None
        else:
            segments = self.history.segments
            # A key that did not change since the last snapshot shares its storage.
            before = segments[-2].undo.get(key) if len(segments) > 1 else None
            like = None if before is ABSENT else before
            timed = self._counts.snapshots % _SAMPLE == 0
            began = self._time() if timed else 0.0
            segment.undo[key] = self._snapshotter.take(detector, like)
            if timed:
                self.costs.note_snapshot(self._time() - began)
            self._counts.snapshots += 1
        return self._methods[key]

    def _install(self, key: Any, detector: Any) -> None:
        self._detectors[key] = detector
        self._methods[key] = self._runner.method(detector)

    def _remove(self, key: Any) -> None:
        self._detectors.pop(key, None)
        self._methods.pop(key, None)

    # Back

    def replay(self, key: Any, disturbance: Disturbance, *, on_demand: bool) -> Replay:
        """Handle the events of a key again, from the snapshot before its first disturbance."""
        replay = Replay(disturbance.at)
        affected = self.history.segments[disturbance.first :]
        detector = self._restored(key, affected)
        for segment in affected:
            self._outputs.unmake(segment.outputs.get(key, ()))
        for index, segment in enumerate(affected, disturbance.first):
            if not segment.rows(key) or segment.columns is None:
                segment.undo.pop(key, None)
                replay.old += segment.outputs.pop(key, ())
                continue
            if on_demand and index > disturbance.last and key in segment.undo:
                began = self._time()
                same = self._is_at(detector, segment.undo[key])
                replay.comparing += self._time() - began
                if same:
                    rest = affected[index - disturbance.first :]
                    replay.spared = sum(len(other.rows(key)) for other in rest)
                    for other in rest:
                        self._outputs.keep(other.outputs.get(key, ()), replay.new)
                    break
            state = ABSENT if detector is None else self._snapshotter.take(detector)
            segment.undo[key] = state
            if detector is None:
                detector = self._snapshotter.make()
            detector = self._again(replay, segment, key, detector)
        else:
            if detector is None:
                self._remove(key)
            else:
                self._install(key, detector)
        return replay

    def _is_at(self, detector: Any, saved: Snapshot) -> bool:
        """Whether a detector is in the state that was saved; None is one that does not exist."""
        if detector is None or saved is ABSENT:
            return detector is None and saved is ABSENT
        return self._snapshotter.is_at(detector, saved)

    def _restored(self, key: Any, affected: list[Segment]) -> Any:
        """A detector in the state that the key had before these segments; None if it had none."""
        for segment in affected:
            if key in segment.undo:
                saved = segment.undo[key]
                return None if saved is ABSENT else self._snapshotter.restore(saved)
        known = self._detectors.get(key)
        # A copy: if the replay comes to the same state, the known one stays in place.
        return known and self._snapshotter.restore(self._snapshotter.take(known))

    def _again(self, replay: Replay, segment: Segment, key: Any, detector: Any) -> Any:
        """Handle the events of a key in one segment again; outputs that come again stay."""
        assert segment.columns is not None
        old = segment.outputs.pop(key, [])
        made, detector = self._run_again(segment, key, detector)
        columns, rows = segment.columns, segment.rows(key)
        replay.handled += len(rows)
        replay.old += old
        if not made:
            replay.silent.append((columns, rows))
            return detector
        known = {(output.id, output.place): output for output in old}
        at = columns.at[rows].tolist()
        newest, done = replay.newest(), 0
        after = []
        for number, items in _by_number(made):
            before = max([newest, *at[done:number]])
            newest = max(before, at[number])
            done = number + 1
            place, cause = columns.place(rows[number]), columns.events[rows[number]]
            if self._timed and type(items[0]) is Due:
                due, items = _split_due(items)
                after += self._make_due(due, key, before, newest)
            for n, event in enumerate(items):
                after.append(self._outputs.make(event, n, place, cause, newest, key))
        after = [known.get((output.id, output.place), output) for output in after]
        segment.outputs[key] = after
        replay.new += after
        replay.at = max(newest, max(at[done:], default=newest))
        return detector

    def _run_again(self, segment: Segment, key: Any, detector: Any) -> tuple[list[Made], Any]:
        """Hand the segment's events of a key to a detector; it may fail and be replaced."""
        assert segment.columns is not None
        rows = segment.rows(key)
        if not self.failures:
            try:
                events = pick(segment.columns.events, rows)
                return self._runner.run(self._runner.method(detector), events), detector
            except DetectorFailed:
                pass
        detector = self._from(segment.undo[key])
        made, detector = self._with_care(key, segment.columns, rows, detector)
        number = {row: n for n, row in enumerate(rows)}
        return [(number[row], event) for row, event in made], detector


def _split_due(items: list[Any]) -> tuple[list[Due], list[Event]]:
    """What a detector made because time had come there, and what it made of the event itself."""
    return [i for i in items if type(i) is Due], [i for i in items if type(i) is not Due]


def _by_number(made: list[Made]) -> Iterator[tuple[int, list[Any]]]:
    """What was made, by the number of the event that it was made from."""
    for number, pairs in groupby(made, key=lambda pair: pair[0]):
        yield number, [event for _, event in pairs]
