"""Stages of compiled patterns: the same contract as `RowStage`, over columns.

Events are columns all the way: two numbers tell which steps an event fits, a number its key, and
only for matches payloads are looked up. The history is a row of segments, each with its events in
order and an undo log; a log entry is one number, the head of a key's list of runs (see
`betimes.patterns.kernel`). Events that land before others that were handled are merged into their
segments; the keys they belong to, all at once, get the states from before the first of these
segments, and handle their events again from there on. Outputs are compared by identity.

Going back is so cheap here that it is not worth to look for a place to stop, so `retraction=` makes
no difference: only what has changed is ever told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.hierarchy import Node
from betimes.engine.news.news import TIME, News, Output
from betimes.engine.news.outputs import Path, encode
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.columns.history import Segment
from betimes.engine.stages.columns.reader import ColumnArrivals, Reader
from betimes.engine.stages.columns.runs import Runs
from betimes.engine.stages.columns.shaper import Shaper
from betimes.engine.stages.columns.store import Store
from betimes.engine.stages.driver import END, NOTHING, Ints, Stage, StageOptions
from betimes.model.event import Event
from betimes.ordering import NEVER, Ordered, OrderingUnit, holding_times
from betimes.patterns import kernel
from betimes.patterns.compiled import Program
from betimes.patterns.kernel import ARRIVAL, AT, KEY, N_EVENT, NUMBER, TS

Floats = npt.NDArray[np.float64]

SHORT = 512
"""A segment with fewer events is continued by the next batch."""


class ColumnStage(Stage):
    """A compiled pattern, its ordering unit, its history."""

    def __init__(self, node: Node, rank: int, unit: OrderingUnit, options: StageOptions) -> None:
        super().__init__(node, rank, unit, options)
        assert node.pattern is not None
        self.retraction.reason = "compiled: only what has changed is told"
        self.ledger = None
        self._program = Program(node.pattern.spec, node.pattern.limit)
        self._reader = Reader(node, self._program, self.counts, skips=options.errors == "skip")
        self._keys = self._reader.keys
        self._runs = Runs(self._program, node.name)
        self._store = Store()
        self._type, _ = node.pattern.shapes()["match"]
        self._shaper = Shaper(node.pattern, self._program)
        self._segments: list[Segment] = []
        self._stamp = 0
        self._passed = -1
        """How far time has come for matches that wait for windows to close."""
        self._row = 0
        """The unit's number of the next arrival."""
        self._waiting = np.empty((N_EVENT, 0), np.int64)
        self._waiting_own = np.empty((len(self._program.columns), 0))
        self._waiting_rows = NOTHING

    # One batch

    def arrivals(self, inputs: Inputs) -> Arrivals:
        mine = inputs.mask(self.sees)
        _, at = inputs.columns(mine)
        return self._reader.read(inputs.part(mine), at, inputs.groups_of(mine))

    def step(
        self,
        arrivals: Arrivals,
        deleted: list[Output],  # noqa: ARG002 - it reads input events only
        confirmed: list[Output],  # noqa: ARG002
        first: int,
    ) -> News:
        assert isinstance(arrivals, ColumnArrivals)
        began = self._time()
        news = News()
        row = self._row
        self._row += len(arrivals.batch)
        answer = self.unit.feed(arrivals.batch.without_payload())
        self._put(arrivals, row)
        self._follow(arrivals, answer, news, row)
        self._note_suspects(arrivals, answer, row, news)
        last = int(arrivals.at[-1]) if len(arrivals.at) else first
        events, own = self._handed(answer, arrivals.at, row, news)
        self._take_in(events, own, self._outputs.path.time, last, news)
        self._settle(news)
        self._clean_up()
        self.counts.busy += self._time() - began
        return news

    def finish(self, last: int, time: int) -> News:
        began = self._time()
        news = News()
        self._outputs.path = Path(self._outputs.path.end)
        events, own = self._handed(self.unit.finish(), np.array([last]), 0, news)
        self._settled = END
        self._take_in(events, own, time, last, news)
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def _put(self, arrivals: ColumnArrivals, row: int) -> None:
        """Keep the events that concern the pattern until they are handed out."""
        found = arrivals.found
        found[NUMBER] = self._store.put(arrivals.part)
        self._waiting = np.concatenate((self._waiting, found), axis=1)
        self._waiting_own = np.concatenate((self._waiting_own, arrivals.own), axis=1)
        self._waiting_rows = np.concatenate((self._waiting_rows, row + arrivals.wanted))
        self._runs.know(len(self._keys.values))

    def _pass_time(self, clock: Ints, slack: Ints) -> Ints:
        if not self._program.holds_back:
            return NOTHING
        waited = holding_times(self.unit.attenuation, slack)
        bounds = np.concatenate(([self._passed], np.where(clock == NEVER, -1, clock) - waited))
        return np.maximum.accumulate(bounds)

    def _handed(self, answer: Ordered, at: Ints, row: int, news: News) -> tuple[Ints, Floats]:
        """What the unit hands out for the first time, of what concerns the pattern, in order."""
        released, replayed = answer.released, answer.replayed
        rows, places = released.rows, released.at
        if len(replayed):
            new = replayed.at >= 0
            rows = np.concatenate((replayed.rows[new], rows))
            places = np.concatenate((replayed.at[new], places))
        if not len(self._waiting_rows):
            return self._waiting, self._waiting_own
        index = np.minimum(self._waiting_rows.searchsorted(rows), len(self._waiting_rows) - 1)
        mine = self._waiting_rows[index] == rows
        index, rows = index[mine], rows[mine]
        made = at.take(places[mine] - row, mode="clip") if len(at) else at
        events, own = self._waiting[:, index], self._waiting_own[:, index]
        events[AT] = made
        left = np.ones(len(self._waiting_rows), np.bool_)
        left[index] = False
        self._waiting, self._waiting_own = self._waiting[:, left], self._waiting_own[:, left]
        self._waiting_rows = self._waiting_rows[left]
        if len(replayed) or len(answer.late):
            order = np.lexsort((events[ARRIVAL], events[TS]))
            events, own, rows = events[:, order], own[:, order], rows[order]
        if self._too_late or (len(rows) and events[TS].min() <= self._horizon):
            keep = self._in_time(events, rows.tolist(), news)
            events, own = events[:, keep], own[:, keep]
        return events, own

    def _in_time(self, events: Ints, rows: list[int], news: News) -> list[int]:
        """Which events are not too late, by policy or because history is gone; tell the rest."""
        kept = []
        for index, row in enumerate(rows):
            ts = int(events[TS, index])
            late_by = self._too_late.pop(row, None)
            if late_by is None and ts > self._horizon:
                kept.append(index)
                continue
            self.counts.late += 1
            if self._late != "drop":
                late_by = self._settled - ts if late_by is None else late_by
                (event,) = self._store.find(events[NUMBER, index : index + 1]).rows()
                news.late.append((event, late_by, repr(int(events[ARRIVAL, index]))))
        return kept

    # Handling events

    def _take_in(self, events: Ints, own: Floats, time: int, last: int, news: News) -> None:
        """Events behind what was handled disturb their keys, others follow; then time passes."""
        behind = self._behind(events)
        if behind:
            self._go_back(events[:, :behind], own[:, :behind], news)
        if behind < events.shape[1]:
            self._append(events[:, behind:], own[:, behind:], news)
        waits = self._program.holds_back or (time == END and not self._program.uniform)
        if waits and self._segments and (behind or time > self._passed):
            self._passed = max(time, self._passed)
            segment = self._segments[-1]
            keys = np.flatnonzero(self._runs.heads >= 0)
            matches, undo = self._runs.pass_time(keys, self._passed, segment.stamp)
            segment.undo = np.concatenate((segment.undo, undo), axis=1)
            told = np.empty((N_EVENT, len(keys)), np.int64)
            told[KEY], told[AT] = keys, last
            self._publish(self._made(matches, told, segment), news)

    def _behind(self, events: Ints) -> int:
        """How many of the events stand before the last one that was handled."""
        if not self._segments or not events.shape[1]:
            return 0
        ts, arrival = self._segments[-1].events[[TS, ARRIVAL], -1]
        passed = events[TS] < self._passed
        before = (events[TS] < ts) | ((events[TS] == ts) & (events[ARRIVAL] < arrival)) | passed
        return int(before.sum())

    def _append(self, events: Ints, own: Floats, news: News) -> None:
        """Handle events that follow all others."""
        self.counts.handled += events.shape[1]
        if not self._segments or self._segments[-1].events.shape[1] >= SHORT:
            self._stamp += 1
            self._segments.append(Segment(self._stamp, events, own, np.empty((2, 0), np.int64)))
        else:
            segment = self._segments[-1]
            segment.events = np.concatenate((segment.events, events), axis=1)
            segment.own = np.concatenate((segment.own, own), axis=1)
        segment = self._segments[-1]
        matches, undo = self._runs.handle(events, own, segment.stamp)
        segment.undo = np.concatenate((segment.undo, undo), axis=1)
        self._publish(self._made(matches, events, segment), news)

    def _go_back(self, events: Ints, own: Floats, news: News) -> None:
        """Put late events in their places, and handle their keys again from there on."""
        began = self._time()
        first = self._insert(events, own)
        todo = np.zeros(len(self._runs.heads), np.bool_)
        todo[events[KEY]] = True
        found = np.zeros_like(todo)
        affected = self._segments[first:]
        old: list[Output] = []
        for segment in affected:
            segment.undo = self._runs.go_back(segment.undo, todo, found)
            mine = [output for output in segment.outputs if todo[output.key]]
            if mine:
                gone = set(map(id, mine))
                segment.outputs = [o for o in segment.outputs if id(o) not in gone]
                old += mine
        self._runs.disturb(events[KEY], events[AT])
        self._outputs.unmake(old)
        known = {(output.id, output.place): output for output in old}
        new: list[Output] = []
        for segment in affected:
            matches, undo = self._runs.handle(segment.events, segment.own, segment.stamp, todo)
            segment.undo = np.concatenate((segment.undo, undo), axis=1)
            new += self._made(matches, segment.events, segment, known)
            self.counts.replayed += int(todo[segment.events[KEY]].sum())
        self.counts.replays += int(todo.sum())
        stay = set(map(id, old)) & set(map(id, new))
        gone_for_good = [output for output in old if id(output) not in stay]
        late = dict(zip(events[KEY].tolist(), events[NUMBER].tolist(), strict=True))
        for output in gone_for_good:
            (cause,) = self._store.find(np.array([late[output.key]])).rows()
            output.why = f"late {cause.type} at {cause.ts}"
            self._open.pop(output.id, None)
        self.counts.retracted += len(gone_for_good)
        news.deleted += gone_for_good
        self._publish([output for output in new if id(output) not in stay], news)
        self.counts.replaying += self._time() - began

    def _insert(self, events: Ints, own: Floats) -> int:
        """Merge late events into their segments; return the first of these."""
        firsts = np.array([segment.first for segment in self._segments])
        at = firsts[:, 0].searchsorted(events[TS], side="right") - 1
        # Of equal times, what arrived before a segment's first event belongs to the one before.
        while len(early := np.flatnonzero(
            (at > 0) & (firsts[at, 0] == events[TS]) & (firsts[at, 1] > events[ARRIVAL])
        )):  # fmt: skip
            at[early] -= 1
        at = np.maximum(at, 0)
        for number in np.unique(at).tolist():
            mine = at == number
            self._segments[number].insert(events[:, mine], own[:, mine])
        return int(at.min())

    # Outputs

    def _made(
        self,
        matches: Ints,
        events: Ints,
        segment: Segment,
        known: dict[tuple[str, Any], Output] | None = None,
    ) -> list[Output]:
        """Outputs of matches that were told at these events; those that are known stay."""
        if not matches.shape[1]:
            return []
        told = events[:, matches[kernel.TOLD]]
        count = matches.shape[1]
        every = self._store.find(matches[kernel.EVENTS :].ravel())
        bound = [every.part(low, low + count) for low in range(0, len(every), count)]
        payloads = self._shaper.payloads(bound)
        causes = bound[-1].rows_without_payload()
        if not self._program.uniform:
            causes = self._tellers(told, matches[kernel.DUE])
        at = matches[kernel.NEWEST]
        due = matches[kernel.DUE]
        waited = np.flatnonzero(due >= 0).tolist()
        for number in waited:
            at[number] = max(self._outputs.path.reaches(int(due[number])), int(at[number]))
        clock, slack = self._outputs.path.at_all(at)
        values = self._keys.values
        columns = (told[TS], told[ARRIVAL], due, told[KEY])
        places = [
            (ts, 0, arrival) if until < 0 else (until, TIME, encode(values[code]))
            for ts, arrival, until, code in zip(*(c.tolist() for c in columns), strict=True)
        ]
        outputs = self._outputs.make_all(
            self._type, bound[-1].ts.tolist(), payloads, places, causes,
            at.tolist(), clock.tolist(), slack.tolist(),
            told[KEY].tolist(), values,
        )  # fmt: skip
        if known:
            outputs = [known.get((output.id, output.place), output) for output in outputs]
        segment.outputs += outputs
        return outputs

    def _tellers(self, told: Ints, due: Ints) -> list[Event]:
        """What made matches be told: an event, or time."""
        found = [Event("time", ts) for ts in due.tolist()]
        rows = np.flatnonzero(due < 0)
        if len(rows):
            events = self._store.find(told[NUMBER, rows]).rows_without_payload()
            for row, event in zip(rows.tolist(), events, strict=True):
                found[row] = event
        return found

    # Memory

    def _forget(self, before: int) -> Iterable[list[Output]]:
        count = 0
        while count < len(self._segments) - 1 and self._segments[count + 1].first[0] < before:
            count += 1
        gone = self._segments[:count]
        del self._segments[:count]
        return [segment.outputs for segment in gone]

    def _clean_up(self) -> None:
        """Drop runs and events that can never be part of a match again."""
        if not (self._runs.crowded or self._store.crowded):
            return
        bound = self._runs.clean_up([segment.undo for segment in self._segments])
        numbers = [segment.events[NUMBER] for segment in self._segments] + [self._waiting[NUMBER]]
        needed = min((int(each.min()) for each in numbers if len(each)), default=self._store.count)
        self._store.forget(needed, bound)

    @property
    def remembered(self) -> int:
        return sum(segment.events.shape[1] for segment in self._segments)

    def snapshots(self) -> tuple[int, int]:
        logs = [segment.undo for segment in self._segments]
        return sum(log.shape[1] for log in logs), sum(log.nbytes for log in logs)

    def state_of(self) -> dict[str, Any]:
        outputs = [output for segment in self._segments for output in segment.outputs]
        place = {id(output): number for number, output in enumerate(outputs)}
        return {
            **self._common_state(),
            "unit": self.unit.state_of(),
            "outputs": [output.state_of() for output in outputs],
            "open": [place[id(output)] for output in self._open.values()],
            "segments": [
                (s.stamp, s.events, s.own, s.undo, len(s.outputs)) for s in self._segments
            ],
            "runs": self._runs.state_of(),
            "keys": self._keys.values,
            "interned": self._reader.interned.state_of(),
            "store": self._store.state_of(),
            "waiting": (self._waiting, self._waiting_own, self._waiting_rows),
            "numbers": (self._stamp, self._passed, self._row),
        }

    def resume(self, kept: dict[str, Any]) -> None:
        self.unit.resume(kept["unit"])
        self._resume_common(kept)
        outputs = [Output.resumed(state) for state in kept["outputs"]]
        self._open = {outputs[number].id: outputs[number] for number in kept["open"]}
        at = 0
        for stamp, events, own, undo, count in kept["segments"]:
            self._segments.append(Segment(stamp, events, own, undo, outputs[at : at + count]))
            at += count
        self._runs.resume(kept["runs"])
        self._keys.resume(kept["keys"])
        self._reader.interned.resume(kept["interned"])
        self._store.resume(kept["store"])
        self._waiting, self._waiting_own, self._waiting_rows = kept["waiting"]
        self._stamp, self._passed, self._row = kept["numbers"]
