"""Stages of detectors per batch: the same contract as `RowStage`, over columns.

A detector per batch that reads input events gets them as they came, as columns: no event becomes a
Python object on the way. What waits is looked up by number when the ordering unit hands it out, and
what was handled stays in the slices in which it was handed over. Every key has a detector and a
history of its own; without keys there is one.

1. The ordering unit says which events may be handled now, and up to where order is certain.
2. Those that follow all handled ones of their key are handed over in slices, as long as the
   checkpoint model allows; at attenuation 1 that is usually one slice a batch and key.
3. Those that land before handled ones are put into their segments, and the key's detector handles
   these and all that follow again, once a batch, however many there are.
4. Outputs are compared by identity, and told, as with any detector.

Invariant: the outputs in a history are those that the detector makes when it is handed the
segments in the history, starting from the first one's snapshot.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from betimes.engine.hierarchy import Node
from betimes.engine.news.news import News, Output
from betimes.engine.news.outputs import Path
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.reading.keys import Keys, has_column, key_codes
from betimes.engine.stages.driver import END, Ints, StageOptions
from betimes.engine.stages.handling import Disturbance
from betimes.engine.stages.replaying import ReplayingStage
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.slices.events import Slice, Waiting
from betimes.engine.stages.slices.handling import SliceHandling
from betimes.engine.stages.slices.history import History, Segment
from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.ordering import Ordered, OrderingUnit


class SliceArrivals(Arrivals):
    """What arrives at a stage of a detector per batch: columns for the unit, others for it."""

    __slots__ = ("codes", "part")

    def __init__(
        self, inputs: Inputs, seen: tuple[EventBatch, Ints], wanted: Ints, part: EventBatch
    ) -> None:
        batch, at = seen

        def event(index: int) -> Event:
            return inputs.batch[int(at[index]) - inputs.first]

        super().__init__(batch, at, wanted, [], None, event)
        self.part = part
        """The events that the detector takes."""
        self.codes: Ints = np.zeros(len(part), np.int64)
        """Their keys."""


class BatchStage(ReplayingStage):
    """A detector per batch on input events, its ordering unit, its history."""

    def __init__(self, node: Node, rank: int, unit: OrderingUnit, options: StageOptions) -> None:
        super().__init__(node, rank, unit, options)
        self.handling: SliceHandling = SliceHandling(
            node, self._outputs, self.counts, snapshots=options.snapshots, time=options.time
        )
        self._has_keys = node.by is not None or options.grouped
        self._keys = Keys()
        self._waiting = Waiting()
        self._row = 0
        """The unit's number of the next arrival."""
        self._swept = 0
        """How many events had been handled when all keys were last asked what can be forgotten."""

    @property
    def _segments(self) -> list[Segment]:
        histories = self.handling.histories.values()
        return [segment for history in histories for segment in history.segments]

    @property
    def remembered(self) -> int:
        return sum(segment.size for segment in self._segments)

    def snapshots(self) -> tuple[int, int]:
        sizes: dict[int, int] = {}  # what snapshots share counts once
        segments = self._segments
        for segment in segments:
            saved = segment.saved
            for part in (saved, *(saved.values() if isinstance(saved, dict) else ())):
                sizes[id(part)] = sys.getsizeof(part)
        return len(segments), sum(sizes.values())

    def _forget(self, before: int) -> Iterable[list[Output]]:
        histories = self.handling.histories
        if self.counts.handled - self._swept < len(histories) - 1:
            return  # many keys, few events: later
        self._swept = self.counts.handled
        for history in histories.values():
            for segment in history.forget(before):
                yield segment.outputs

    # One batch

    def arrivals(self, inputs: Inputs) -> Arrivals:
        on, sees = inputs.mask(self.node.takes), inputs.mask(self.sees)
        part = inputs.part(on, self.node.maker.columns, f"detector {self.node.name!r}")
        arrivals = SliceArrivals(inputs, inputs.columns(sees), inputs.among(on, sees), part)
        if self._has_keys:
            by = self.node.by
            whole = inputs.part(on) if by and not has_column(part, by) else part
            arrivals.codes = key_codes(self.node, self._keys, whole, inputs.groups_of(on))
        return arrivals

    def step(
        self,
        arrivals: Arrivals,
        deleted: list[Output],  # noqa: ARG002 - it reads input events only
        confirmed: list[Output],  # noqa: ARG002
        first: int,  # noqa: ARG002
    ) -> News:
        assert isinstance(arrivals, SliceArrivals)
        began = self._time()
        news = News()
        row = self._row
        self._row += len(arrivals.batch)
        answer = self.unit.feed(arrivals.batch)
        wanted = arrivals.wanted
        self._waiting.put(row + wanted, arrivals.at[wanted], arrivals.codes, arrivals.part)
        self._follow(arrivals, answer, news, row)
        self._note_suspects(arrivals, answer, row, news)
        if len(answer.step.rejected):
            self._waiting.drop(answer.step.rejected)
        self._take_in(*self._handed(answer, arrivals.at, row, news), news)
        self._waiting.tidy()
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def finish(self, last: int, time: int) -> News:  # noqa: ARG002 - it has no deadlines
        """The stream has ended: handle what is left; everything is final."""
        began = self._time()
        news = News()
        self._outputs.path = Path(self._outputs.path.end)
        events, codes = self._handed(self.unit.finish(), np.array([last]), 0, news)
        self._settled = END
        self._take_in(events, codes, news)
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def _handed(self, answer: Ordered, at: Ints, row: int, news: News) -> tuple[Slice, Ints]:
        """What the unit hands out for the first time, in order of place, and its keys."""
        rows, ts, made = self._first_handed(answer, at, row)
        batch, arrival, codes = self._waiting.take(rows)
        events = Slice(batch, arrival, made)
        if self._too_late or (len(ts) and ts.min() <= self._horizon):
            kept = self._in_time(events, rows, news)
            events, codes = events.take(kept), codes[kept]
        return events, codes

    def _in_time(self, events: Slice, rows: Ints, news: News) -> Ints:
        """Which events are not too late, by policy or because history is gone; tell the rest."""
        ts = events.batch.ts
        late = (ts <= self._horizon) | np.isin(rows, list(self._too_late))
        for index in np.flatnonzero(late).tolist():
            late_by = self._too_late.pop(int(rows[index]), None)
            self.counts.late += 1
            if self._late != "drop":
                late_by = self._settled - int(ts[index]) if late_by is None else late_by
                news.late.append((events.batch[index], late_by, repr(int(events.arrival[index]))))
        return np.flatnonzero(~late)

    def _take_in(self, events: Slice, codes: Ints, news: News) -> None:
        """Events behind what was handled disturb their keys, others follow."""
        disturbed = breaches = 0
        made: list[Output] = []
        parts = self._by_key(events, codes)
        for key, mine in parts:
            history = self.handling.history(key)
            behind = mine.count_before(history.last)
            if behind:
                disturbed += 1
                breaches += bool(mine.batch.ts[0] <= self.final_to)
                self._go_back(history, mine.part(0, behind), news)
            certain = int(mine.batch.ts.searchsorted(self._certain(), side="right"))
            for outputs in self.handling.append(history, mine, behind, certain, self.reach):
                made += outputs
        if len(parts) > 1:
            made.sort(key=attrgetter("cause"))
        self._publish(made, news)
        self.handling.costs.note_batch(disturbed, breaches, max(len(parts), 1))

    def _by_key(self, events: Slice, codes: Ints) -> list[tuple[Any, Slice]]:
        """The events of each key."""
        if not len(events):
            return []
        if not self._has_keys:
            return [(None, events)]
        order = np.argsort(codes, kind="stable")
        borders = np.flatnonzero(np.diff(codes[order])) + 1
        values = self._keys.values
        if not len(borders):
            return [(values[codes[0]], events)]
        return [(values[codes[rows[0]]], events.take(rows)) for rows in np.split(order, borders)]

    def _go_back(self, history: History, late: Slice, news: News) -> None:
        """Put late events in their places, replay, and tell what that changed."""
        began = self._time()
        landed = history.insert(late)
        first, last = landed[0], landed[-1]
        place, (cause,) = late.place(0), late.causes([0])
        breach = place[0] <= self.final_to
        disturbance = Disturbance(first, last, place, ("late", cause), int(late.at.max()), breach)
        on_demand = self.retraction.on_demand
        replay = self.handling.replay(history, disturbance, on_demand=on_demand)
        self.counts.replays += 1
        self.counts.replayed += replay.handled
        self._republish(history.key, replay, disturbance, news, on_demand=on_demand)
        self.counts.replaying += self._time() - began

    # Checkpoints

    def state_of(self) -> dict[str, Any]:
        """All that must be kept to go on elsewhere, as data."""
        handling = self.handling
        outputs = [output for segment in self._segments for output in segment.outputs]
        place = {id(output): number for number, output in enumerate(outputs)}
        return {
            **self._common_state(),
            "unit": self.unit.state_of(),
            "waiting": self._waiting.state_of(),
            "row": self._row,
            "keys": self._keys.values,
            "outputs": [output.state_of() for output in outputs],
            "open": [place[id(output)] for output in self._open.values()],
            "histories": [
                (key, handling.snapshot(history), history.last, _written(history.segments))
                for key, history in handling.histories.items()
            ],
            "failures": {place: str(error) for place, error in handling.failures.items()},
            "judged": handling.judged,
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Go on from what `state_of` kept."""
        self.unit.resume(kept["unit"])
        self._waiting.resume(kept["waiting"])
        self._row = kept["row"]
        self._keys.resume(kept["keys"])
        outputs = [Output.resumed(state) for state in kept["outputs"]]
        self._open = {outputs[number].id: outputs[number] for number in kept["open"]}
        if self.ledger is not None:
            self.ledger.note(outputs)
        every = iter(outputs)
        for key, snapshot, last, segments in kept["histories"]:
            history = self.handling.resume(key, snapshot)
            history.last = last
            for start, saved, events, count in segments:
                segment = Segment(start, saved)
                segment.extend(Slice.resumed(events))
                segment.outputs = list(islice(every, count))
                history.segments.append(segment)
        self.handling.failures = {
            place: DetectorFailed(message) for place, message in kept["failures"].items()
        }
        self.handling.judged = kept["judged"]
        self._resume_common(kept)


def _written(segments: list[Segment]) -> list[tuple[Any, ...]]:
    return [(s.start, s.saved, s.events.state_of(), len(s.outputs)) for s in segments]
