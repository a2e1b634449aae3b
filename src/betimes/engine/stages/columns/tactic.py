"""The tactic of columns: compiled patterns.

Events are columns all the way: two numbers say which steps an event fits, one number is its key,
and payloads are looked up only for matches. The history is a list of segments, each with its events
in order and an undo log; a log entry is one number, the head of a key's list of runs (see
`betimes.patterns.kernel`). Events that land before handled ones are merged into their segments. All
their keys are set back together, to the states before the first of these segments, and handle their
events again from there on.

Above the first level, outputs of other stages are among the events (`below`). An output that is
taken back is removed from its segment, and its key goes back as if a late event had landed there.

Going back is so cheap here that looking for a place to stop would cost more, so `retraction=` makes
no difference: only what has changed is ever published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from betimes.engine.news.comparing import made_again
from betimes.engine.news.outputs import TIME, Output, Outputs, Place
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.snapshots.segments import read_segments, write_segments
from betimes.engine.stages.columns.below import Known, Waits
from betimes.engine.stages.columns.committing import Committing
from betimes.engine.stages.columns.failing import LeftOut, netted
from betimes.engine.stages.columns.history import CodedEvents, ColumnSegment
from betimes.engine.stages.columns.reader import FEW, ColumnArrivals, Read, Reader
from betimes.engine.stages.columns.runs import EVERYBODY, Flags, PartialMatches
from betimes.engine.stages.columns.stored import check_columns
from betimes.engine.stages.columns.waiting import CodedRoom, Promised
from betimes.engine.stages.tactic import (
    END,
    ColumnReplay,
    Ints,
    Joined,
    Moment,
    Setting,
    Told,
)
from betimes.model.arrays import ArrayBatch
from betimes.model.stored import Int, shaped
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.patterns import PatternError
from betimes.patterns.compiled import Program
from betimes.patterns.kernel import AT, EVENT, KEY, N_EVENT, NUMBER

_start = attrgetter("start")
SHORT = 256
"""A segment with fewer events is continued by the next batch."""


class ColumnTactic:
    """Runs a compiled pattern over columns.

    Each attribute is one part of that: reading, waiting, matching, keeping payloads, committing.
    """

    weighs = False
    reads_rows = False

    def __init__(self, setting: Setting) -> None:
        node = setting.node
        assert node.pattern is not None
        setting.retraction.reason = "compiled: only what has changed is published"
        self._setting = setting
        self._outputs = setting.outputs
        self._program = Program(node.pattern.spec, node.pattern.limit)
        skips = setting.options.errors == "skip"
        self._reader = Reader(node, self._program, setting.counts, skips=skips)
        self._keys = self._reader.keys
        self._left_out = LeftOut(setting, self._keys)
        self._runs = PartialMatches(self._program, node.name)
        self._store = Known()
        self._below = Waits()
        self._committing = Committing(setting, self._program, self._store, self._keys)
        self._waiting = CodedRoom(len(self._program.columns), self._store)
        self._segments: list[ColumnSegment] = []
        self._last: Place = (-1, TIME, b"")
        """The last place that was handled."""
        self._missing = 0
        """Of the rows before this one, some do not wait here, because they fit no step."""
        self._disturbed: dict[int, tuple[int, int, str]] = {}
        """Keys from which outputs of other stages were taken back: the first segment, at which
        arrival, and why."""
        self._stamp = 0
        self._passed = -1
        """How far time has come, for matches that wait for windows to close."""

    @property
    def passed(self) -> int | None:
        return self._passed if self._program.holds_back else None

    @property
    def next_due(self) -> int:
        return self._passed if (self._runs.heads >= 0).any() else END

    def let_pass(self, time: int) -> None:
        if self._segments:
            self._passed = max(self._passed, time)

    # Arrivals

    def read(self, inputs: Inputs) -> Arrivals:
        on, sees = self._setting.masks(inputs.batch.types)
        columns, at = inputs.columns(sees)

        event = inputs.event_at(at)
        if not any(on):
            return self._reader.nothing(columns, at, event)
        if self._program.by_type_alone and inputs.groups is None:
            whole = inputs.arrays()
            if isinstance(whole, ArrayBatch):
                room = self._waiting.spare(len(at))
                found = self._reader.sort_out(whole, inputs.first, on, columns, at, event, room)
                return found or self._reader.read(
                    Read(whole.take(inputs.rows(on)), inputs.among(on, sees), None),
                    columns, at, event,
                )  # fmt: skip
        few = len(inputs.batch) <= FEW
        events = inputs.part_in_rows(on) if few else inputs.part(on)
        read = Read(events, inputs.among(on, sees), inputs.groups_of(on))
        return self._reader.read(read, columns, at, event)

    def join(self, arrivals: Arrivals, joined: Joined) -> Arrivals:
        assert isinstance(arrivals, ColumnArrivals)
        return self._reader.join(arrivals, joined, grouped=self._setting.grouped)

    def put(self, row: int, arrivals: Arrivals) -> None:
        assert isinstance(arrivals, ColumnArrivals)
        self._reader.keep(arrivals)
        found = arrivals.found
        for part, rows, places in arrivals.parts:
            found[NUMBER, places] = self._store.put(part, rows)
        if arrivals.below is not None:
            (now, outputs), (places, which) = arrivals.below, arrivals.concern
            self._below.put(row + now, outputs)
            self._store.hear(outputs, found[NUMBER, places], which)
        if arrivals.spare:
            self._missing = row + len(arrivals.at)
        elif self._missing == END:
            self._missing = row
        self._waiting.put(arrivals.wanted, row, found, arrivals.own)
        self._runs.know(len(self._keys.values))

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[CodedEvents, Ints]:
        if not self._store.mixed and (not self._missing or rows.min(initial=END) >= self._missing):
            return Promised(self._waiting, rows, ts, at), rows
        self._below.hand_out(rows)
        taken, mine = self._waiting.take(rows, at)
        self._setting.counts.handled += len(rows) - len(mine)  # those that fit no step
        return taken, mine

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:  # noqa: ARG002
        row = self._below.withdraw(output)
        if row is None and self._segments:
            which = max(bisect_right(self._segments, output.place, key=_start) - 1, 0)
            key = self._segments[which].remove(output, self._store)
            if key is not None:
                first, before, _ = self._disturbed.get(key, (which, at, ""))
                why = f"retracted {output.event.type} at {output.event.ts}"
                self._disturbed[key] = min(first, which), max(before, at), why
        return row

    # Handling events

    def handle(self, events: CodedEvents, moment: Moment) -> Iterator[Told]:
        if self._store.mixed:
            events = events.sorted()
        behind = self._behind(events)
        went_back = bool(behind or self._disturbed)
        told: list[Outputs | ColumnReplay] = []
        if went_back:
            self._setting.counts.handled += behind
            told.append(self._go_back(events.part(0, behind)))
        if behind < len(events):
            told.append(self._append(events.part(behind, len(events))))
        while stumbled := self._left_out.stumbled():
            self._disturbed, went_back = stumbled, True
            told = [netted([*told, self._go_back(events.part(0, 0), try_again=False)])]
        yield from told
        time = moment.time
        waits = self._program.holds_back or (time == END and not self._program.uniform)
        if waits and self._segments and (went_back or time > self._passed):
            self._passed = max(time, self._passed)
            segment = self._segments[-1]
            keys = np.flatnonzero(self._runs.heads >= 0)
            matches, undo = self._runs.pass_time(keys, self._passed, segment.stamp)
            segment.log(undo)
            due = np.empty((N_EVENT, len(keys)), np.int64)
            due[KEY], due[AT] = keys, moment.last
            yield self._publish(matches, due, segment)

    def _behind(self, events: CodedEvents) -> int:
        """How many of the events come before the last handled one, or before time that passed."""
        if not self._segments:
            return 0
        behind = events.count_before(self._last)
        return (
            behind if self._passed < 0 else max(behind, int(events.ts.searchsorted(self._passed)))
        )

    def _append(self, events: CodedEvents) -> Outputs:
        """Handle events that follow all others."""
        self._setting.counts.handled += len(events)
        if not self._segments or self._segments[-1].size >= SHORT:
            if self._segments:
                self._segments[-1].trim()
            self._stamp += 1
            nothing, own = np.empty((N_EVENT, 0), np.int64), len(self._program.columns)
            self._segments.append(
                ColumnSegment(self._stamp, self._last, nothing, np.empty((own, 0)), nothing[:2])
            )
        segment = self._segments[-1]
        low, segment.kept = segment.size, None
        if isinstance(events, Promised):
            matches, undo = self._runs.hand_over(events, segment)
            self._last = segment.place(segment.size - 1)
            if not low:
                segment.start = segment.place(0)
        else:
            segment.extend(events)
            self._last = events.place(len(events) - 1)
            if not low:
                segment.start = events.place(0)
            matches, undo = self._run(segment, low)
        segment.log(undo)
        handled = segment.events[:, low:] if self._store.mixed else segment.events
        return self._publish(matches, handled, segment)

    def _run(self, segment: ColumnSegment, low: int, todo: Flags = EVERYBODY) -> tuple[Ints, Ints]:
        """Handle the events of a segment from a row on.

        Matches count events from the first of the segment, or, with outputs of other stages among
        them, from this row on.
        """
        if self._store.mixed:
            own = segment.own[:, low:].copy()
            return self._runs.handle(segment.numbered(low), own, segment.stamp, todo)
        events, own = segment.make_room(0)
        return self._runs.handle(events, own, segment.stamp, todo, since=low, end=segment.size)

    def _go_back(self, late: CodedEvents, *, try_again: bool = True) -> ColumnReplay:
        """Put late events in their places, and handle their keys again from there on."""
        began, counts, events = self._setting.time(), self._setting.counts, late.events
        firsts = [first for first, _, _ in self._disturbed.values()]
        affected = self._segments[min(firsts + ([self._insert(late)] if len(late) else [])) :]
        keys = np.array([*self._disturbed, *events[KEY].tolist()], np.int64)
        seen = [at for _, at, _ in self._disturbed.values()] + events[AT].tolist()
        todo = np.zeros(len(self._runs.heads), np.bool_)
        todo[keys] = True
        found = np.zeros_like(todo)
        replay = ColumnReplay(None, self._last, -1, on_demand=True)
        undone = []
        for segment in affected:
            before = segment.undo.shape[1]
            segment.undo = self._runs.go_back(segment.undo, todo, found)
            given_up = segment.give_up(todo)
            if given_up or segment.undo.shape[1] < before:
                segment.kept = None
            undone += given_up
        self._runs.disturb(keys, np.array(seen, np.int64))
        old = Outputs.concat(undone)
        self._outputs.unmake(old)
        made = []
        self._left_out.go_back(affected, todo, try_again=try_again)
        for segment in affected:
            handled = segment.events
            others = self._left_out.others(handled)
            if others is None:
                matches, undo = self._run(segment, 0, todo)
            else:
                numbered = segment.numbered(0) if self._store.mixed else handled
                handled = handled[:, others]
                matches, undo = self._runs.handle(
                    np.ascontiguousarray(numbered[:, others]),
                    np.ascontiguousarray(segment.own[:, others]), segment.stamp, todo,
                )  # fmt: skip
            segment.log(undo)
            made.append(self._publish(matches, handled, segment))
            replay.handled += int(todo[segment.events[KEY]].sum())
        self._compare(replay, old, made, affected)
        replay.why = self._why(replay.gone, events)
        self._disturbed = {}
        counts.replays += int(todo.sum())
        counts.replayed += replay.handled
        counts.replaying += self._setting.time() - began
        return replay

    def _compare(
        self, replay: ColumnReplay, old: Outputs, made: list[Outputs], affected: list[ColumnSegment]
    ) -> None:
        """What has changed; outputs that came again stay what they were."""
        new = Outputs.concat(made)
        again, was = made_again(old, new)
        replay.fresh, replay.gone = new.without(again), old.without(was)
        if not len(again):
            return
        low = 0
        for segment, part in zip(affected, made, strict=True):
            high = low + len(part)
            first, last = again.searchsorted((low, high)).tolist()
            if first < last:
                others = part.without(again[first:last] - low)
                segment.outputs[-1:] = [others] if len(others) else []
                segment.outputs.append(old.pick(was[first:last]))
            low = high

    def _why(self, gone: Outputs, late: Ints) -> list[str]:
        """Outputs that did not come again were undone by what happened to their key."""
        if not len(gone):
            return []
        why = {key: told for key, (_, _, told) in self._disturbed.items()}
        if late.shape[1]:
            causes = self._store.find(late[NUMBER]).rows_without_payload()
            for key, cause in zip(late[KEY].tolist(), causes, strict=True):
                why[key] = f"late {cause.type} at {cause.ts}"
        return [why[int(key)] for key in gone.keys]

    def _insert(self, late: CodedEvents) -> int:
        """Merge late events into their segments; return the first of these."""
        segments = self._segments
        first = max(bisect_right(segments, late.place(0), key=_start) - 1, 0)
        starts = [segment.start for segment in segments[first + 1 :]]
        at = np.array([bisect_right(starts, late.place(row)) for row in range(len(late))])
        for number in np.unique(at).tolist():
            segments[first + number].insert(late.pick(np.flatnonzero(at == number)), self._store)
        return first

    def _publish(self, matches: Ints, handled: Ints, segment: ColumnSegment) -> Outputs:
        """The outputs of matches, without those whose payload cannot be made."""
        try:
            return self._commit(matches, handled, segment)
        except PatternError:
            number = next(n for n, each in enumerate(self._segments) if each is segment)
            committing = self._committing
            good = self._left_out.sift(
                matches, handled, number, committing.payloads, committing.place
            )
            return self._commit(good, handled, segment)

    def _commit(self, matches: Ints, handled: Ints, segment: ColumnSegment) -> Outputs:
        """The outputs of matches that these events completed, which the segment remembers."""
        outputs = self._committing.commit(matches, handled)
        if len(outputs):
            segment.outputs.append(outputs)
            segment.kept = None
        return outputs

    # Memory

    def tidy(self, held: Ints) -> None:
        """Drop runs and events that can never be part of a match again."""
        crowded = self._runs.crowded or self._store.crowded
        self._waiting.trim(held, at_once=crowded)
        if not crowded:
            return
        bound = self._runs.clean_up([segment.undo for segment in self._segments])
        for segment in self._segments:
            segment.kept = None  # their logs have other numbers now
        numbers = [segment.events[NUMBER] for segment in self._segments]
        numbers.append(self._waiting.events[NUMBER])
        needed = min((int(each.min()) for each in numbers if len(each)), default=self._store.next)
        self._store.forget(needed, bound)
        self._left_out.forget(needed)

    def forget(self, before: int) -> Iterable[Outputs]:
        count = 0
        while count < len(self._segments) - 1 and self._segments[count + 1].start[0] < before:
            count += 1
        gone = self._segments[:count]
        del self._segments[:count]
        return [outputs for segment in gone for outputs in segment.outputs]

    def history(self) -> list[tuple[int, int]]:
        each = self._store.weight_of_one()
        return [(s.start[0], s.weight + each * s.size) for s in self._segments]

    @property
    def remembered(self) -> int:
        return sum(segment.size for segment in self._segments)

    def snapshots(self) -> tuple[int, int]:
        logs = [segment.undo for segment in self._segments]
        return sum(log.shape[1] for log in logs), sum(log.nbytes for log in logs)

    def parts(self) -> dict[str, dict[str, float]]:
        return {}

    # Checkpoints

    def outputs(self) -> Outputs:
        return Outputs.concat([each for segment in self._segments for each in segment.outputs])

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        state, what = ColumnSegment.state_of, self._setting.what
        return {
            "segments": write_segments(self._segments, volumes, settled, state, what),
            "runs": self._runs.state_of(volumes),
            "keys": self._keys.values,
            "interned": self._reader.interned.state_of(),
            "store": self._store.state_of(volumes, what),
            "waiting": self._waiting.state_of(),
            "below": self._below.state_of(),
            "left_out": self._left_out.state_of(),
            "numbers": (self._stamp, self._passed, self._last),
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        what = self._setting.what
        self._segments = read_segments(kept["segments"], volumes, ColumnSegment.resumed, what)
        runs = self._runs.read(kept["runs"], volumes)
        check_columns(kept, self._segments, runs, self._program)
        self._runs.resume(runs)
        self._keys.resume(kept["keys"])
        self._reader.interned.resume(kept["interned"])
        self._store.resume(kept["store"], volumes, what)
        self._below.resume(kept["below"])
        self._left_out.resume(kept["left_out"])
        self._waiting.resume(*kept["waiting"])
        known = [segment.events[NUMBER] for segment in self._segments]
        known += [self._waiting.events[NUMBER], runs["bindings"][EVENT]]
        self._store.check(np.concatenate(known))
        numbers = shaped(kept["numbers"], tuple[Int, Int, Place], what)
        self._stamp, self._passed, self._last = numbers
        self._missing = END  # nobody has noted
