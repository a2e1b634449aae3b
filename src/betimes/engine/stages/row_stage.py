"""Stages of Python detectors: handed events in order, with a history that lets them go back.

For each batch of arrivals a stage does this, once:

1. The ordering unit says which events may be handled now, and up to where order is certain.
2. Events that come after all handled ones are handled, in segments between snapshots.
3. Events that land before handled ones, and handled events that were retracted from below, disturb
   the keys they belong to. Each disturbed key goes back to the snapshot before its earliest
   disturbance and handles its events again. Other keys are not touched.
4. On demand, the replay of a key ends as soon as its state at a later snapshot is what it was:
   everything after that still holds. With full retraction it runs to the end, and all outputs since
   the disturbance are taken back and published again.
5. Old and new outputs are compared by identity, which is content: what is in both has not changed.
6. Outputs whose cause, and all that stands before it, is settled and itself final become final.

Invariant: the outputs in the history are those that the detector makes when it is handed, key by
key and in order, the events in the history, starting from the first segment's snapshot.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from betimes.engine.hierarchy import Node
from betimes.engine.news.news import News, Output
from betimes.engine.news.outputs import Path
from betimes.engine.reading.arrivals import Arrivals, Waiting
from betimes.engine.reading.coded import keys_of
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.driver import END, NOTHING, Ints, StageOptions
from betimes.engine.stages.handling import Disturbance, Handling
from betimes.engine.stages.history import ABSENT, Columns, Segment
from betimes.engine.stages.replaying import ReplayingStage
from betimes.engine.stages.runner import DetectorFailed
from betimes.model.event import Event
from betimes.ordering import NEVER, Ordered, OrderingUnit, holding_times
from betimes.ordering.clock import EVERY


class RowStage(ReplayingStage):
    """One detector, its ordering unit, its history."""

    def __init__(self, node: Node, rank: int, unit: OrderingUnit, options: StageOptions) -> None:
        super().__init__(node, rank, unit, options)
        self.handling: Handling = Handling(
            node,
            self._outputs,
            self.counts,
            snapshots=options.snapshots,
            time=options.time,
        )
        self.history = self.handling.history
        self._waiting = Waiting()
        self._aside: set[str] = set()
        """Outputs from below that came too late and were not handled."""

    @property
    def remembered(self) -> int:
        return self.history.size

    def snapshots(self) -> tuple[int, int]:
        logs = [segment.undo for segment in self.history.segments]
        sizes: dict[int, int] = {}  # what snapshots share counts once
        for saved in chain.from_iterable(log.values() for log in logs):
            for part in (saved, *(saved.values() if isinstance(saved, dict) else ())):
                sizes[id(part)] = sys.getsizeof(part)
        return sum(map(len, logs)), sum(sizes.values())

    def _forget(self, before: int) -> Iterable[list[Output]]:
        for segment in self.history.forget(before):
            yield from segment.outputs.values()

    # One batch

    def arrivals(self, inputs: Inputs) -> Arrivals:
        on, sees = inputs.mask(self.node.takes), inputs.mask(self.sees)
        part, at = inputs.columns(sees)
        events = inputs.events(on)
        groups = inputs.groups_of(on)
        keys = self.keys(events, None if groups is None else groups.spelled())

        def event(index: int) -> Event:
            return inputs.batch[int(at[index]) - inputs.first]

        return Arrivals(part, at, inputs.among(on, sees), events, keys, event)

    def step(
        self, arrivals: Arrivals, deleted: list[Output], confirmed: list[Output], first: int
    ) -> News:
        """Take what arrives in a batch; `first` is the number of the batch's first arrival."""
        began = self._time()
        news = News()
        disturbed: dict[Any, Disturbance] = {}
        for output in deleted:
            self._withdraw(output, disturbed, first)
        for output in confirmed:
            self._unsure.pop(output.id, None)
        for output in arrivals.outputs.values():
            if not output.final:
                self._unsure[output.id] = output.event.ts
        answer = self.unit.feed(arrivals.batch)
        row = self._waiting.put(arrivals)
        self._follow(arrivals, answer, news, row)
        self._note_suspects(arrivals, answer, row, news)
        columns = self._handed(answer, arrivals.at, row, news)
        last = int(arrivals.at[-1]) if len(arrivals.at) else first
        self._take_in(columns, disturbed, news, last, self._outputs.path.time)
        self._waiting.trim(self.unit.held_rows)
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def finish(self, last: int, time: int) -> News:
        """The stream has ended at this time: handle what is left; everything is final."""
        began = self._time()
        news = News()
        self._outputs.path = Path(self._outputs.path.end)
        columns = self._handed(self.unit.finish(), np.array([last]), 0, news)
        self._settled = END
        self._unsure.clear()
        self._take_in(columns, {}, news, last, time)
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def _withdraw(self, output: Output, disturbed: dict[Any, Disturbance], at: int) -> None:
        """An event from below was retracted."""
        self._unsure.pop(output.id, None)
        if output.id in self._aside:
            self._aside.discard(output.id)
            return
        row = self._waiting.rows.pop(output.id, None)
        if row is not None:
            del self._waiting.outputs[row]
            self.unit.discard([row])
            return
        key = self.key(output.event, output.group)
        segment = self.history.find(output.place)
        self.history.segments[segment].remove(key, output.place)
        self.handling.failures.pop((key, output.place), None)
        breach = output.place[0] <= self.final_to
        cause = ("retracted", output.event)
        _disturb(disturbed, key, Disturbance(segment, segment, output.place, cause, at, breach))

    def _pass_time(self, clock: Ints, slack: Ints) -> Ints:
        """For detectors with deadlines, time comes as far as events are released."""
        if not self.node.maker.timed:
            return NOTHING
        waited = holding_times(self.unit.attenuation, slack)
        bounds = np.concatenate(
            ([self.handling.time], np.where(clock == NEVER, -1, clock) - waited)
        )
        return np.maximum.accumulate(bounds)

    def _handed(self, answer: Ordered, at: Ints, row: int, news: News) -> Columns:
        """What the unit hands out for the first time, in order of place."""
        rows, ts, made = self._first_handed(answer, at, row)
        if not len(rows):
            return Columns(ts, None, rows, [], made, None)
        events, ties, keys = self._waiting.take(rows)
        columns = Columns(ts, None, ties, events, made, keys)
        derived = self._place_outputs(columns, rows)
        if self._too_late or (len(ts) and ts.min() <= self._horizon):
            columns = self._without_late(columns, rows.tolist(), derived, news)
        if derived:
            columns = columns.sorted()
        return columns

    def _place_outputs(self, columns: Columns, rows: Ints) -> dict[int, Output]:
        """Give outputs of other stages their own place."""
        waiting = self._waiting
        found: dict[int, Output] = {}
        if waiting.outputs:
            for index, row in enumerate(rows.tolist()):
                output = waiting.outputs.pop(row, None)
                if output is not None:
                    rank, tie = columns.with_ranks().rank, columns.tie
                    assert isinstance(rank, list)
                    assert isinstance(tie, list)
                    _, rank[index], tie[index] = output.place
                    del waiting.rows[output.id]
                    found[index] = output
        return found

    def _without_late(
        self, columns: Columns, rows: list[int], derived: dict[int, Output], news: News
    ) -> Columns:
        """Leave out what comes too late: by policy, or because the history is gone."""
        wanted = []
        for index, row in enumerate(rows):
            ts = int(columns.ts[index])
            late_by = self._too_late.pop(row, None)
            if late_by is None and ts > self._horizon:
                wanted.append(index)
                continue
            self.counts.late += 1
            if index in derived:
                self._aside.add(derived[index].id)
                self._unsure.pop(derived[index].id, None)
            if self._late != "drop":
                late_by = self._settled - ts if late_by is None else late_by
                which = repr(columns.place(index)[2])
                news.late.append((columns.events[index], late_by, which))
        return columns if len(wanted) == len(rows) else columns.pick(wanted)

    def keys(self, events: list[Event], groups: list[Any] | None) -> list[Any] | None:
        """The keys of events that the detector takes; `groups` are the engine's own."""
        by = self.node.by
        if by is None:
            return groups
        if EVERY in self.node.on:
            # Nobody named the types: those without the column are a key of their own, as in SQL.
            keys = [event.payload.get(by) for event in events]
        else:
            keys = keys_of(events, by, f"detector {self.node.name!r}")
        return keys if groups is None else list(zip(groups, keys, strict=True))

    def key(self, event: Event, group: Any) -> Any:
        """The key of a single event."""
        keys = self.keys([event], [group] if self._grouped else None)
        return None if keys is None else keys[0]

    def state_of(self) -> dict[str, Any]:
        """All that must be kept to go on elsewhere, as data."""
        outputs: list[Output] = []
        segments = []
        for segment in self.history.segments:
            segment.compact()
            columns = segment.columns
            numbers = {}
            for key, made in segment.outputs.items():
                numbers[key] = list(range(len(outputs), len(outputs) + len(made)))
                outputs += made
            segments.append({
                "start": segment.start,
                "columns": None if columns is None else [
                    getattr(columns, name) for name in Columns.__slots__
                ],
                "undo": [
                    (key, saved is ABSENT, None if saved is ABSENT else saved)
                    for key, saved in segment.undo.items()
                ],
                "outputs": numbers,
            })  # fmt: skip
        place = {id(output): number for number, output in enumerate(outputs)}
        return {
            **self._common_state(),
            "unit": self.unit.state_of(),
            "waiting": self._waiting.state_of(),
            "outputs": [output.state_of() for output in outputs],
            "open": [place[id(output)] for output in self._open.values()],
            "segments": segments,
            "last": self.history.last,
            "detectors": self.handling.snapshots(),
            "failures": {place: str(error) for place, error in self.handling.failures.items()},
            "judged": self.handling.judged,
            "aside": self._aside,
            "time": self.handling.time,
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Go on from what `state_of` kept."""
        self.unit.resume(kept["unit"])
        self._waiting.resume(kept["waiting"])
        outputs = [Output.resumed(state) for state in kept["outputs"]]
        self._open = {outputs[number].id: outputs[number] for number in kept["open"]}
        for state in kept["segments"]:
            segment = Segment(state["start"])
            if state["columns"] is not None:
                named = dict(zip(Columns.__slots__, state["columns"], strict=True))
                segment.extend(Columns(**named))
            segment.undo = {
                key: ABSENT if absent else saved for key, absent, saved in state["undo"]
            }
            segment.outputs = {
                key: [outputs[number] for number in numbers]
                for key, numbers in state["outputs"].items()
            }
            self.history.segments.append(segment)
        if self.ledger is not None:
            self.ledger.note(outputs)
        self.history.last = kept["last"]
        self.handling.time = kept["time"]
        self.handling.resume(kept["detectors"])
        self.handling.failures = {
            place: DetectorFailed(message) for place, message in kept["failures"].items()
        }
        self.handling.judged = kept["judged"]
        self._aside = kept["aside"]
        self._resume_common(kept)

    # Handling events

    def _take_in(
        self,
        columns: Columns,
        disturbed: dict[Any, Disturbance],
        news: News,
        last: int,
        time: int,
    ) -> None:
        """Events behind what was handled disturb their keys, others follow; then time passes."""
        history = self.history
        if not (len(columns) or disturbed or self.node.maker.timed):
            self.handling.costs.note_batch(0, 0, 1)
            return
        behind = columns.count_before(history.last)
        for row, segment in enumerate(history.insert(columns.part(0, behind))):
            place, at = columns.place(row), int(columns.at[row])
            cause = ("late", columns.events[row])
            breach = place[0] <= self.final_to
            disturbance = Disturbance(segment, segment, place, cause, at, breach)
            _disturb(disturbed, columns.key(row), disturbance)
        for key, disturbance in disturbed.items():
            self._go_back(key, disturbance, news)
        certain = int(columns.ts.searchsorted(self._certain(), side="right"))
        made = chain.from_iterable(self.handling.append(columns, behind, certain))
        self._publish(list(made), news)
        touched = set(disturbed)
        if len(columns):
            touched.update([None] if columns.keys is None else columns.keys)
        if self.node.maker.timed:
            self.handling.arm(_known(columns, disturbed))
            due = chain.from_iterable(self.handling.run_out(time, last))
            self._publish(list(due), news)
        breaches = sum(disturbance.breach for disturbance in disturbed.values())
        self.handling.costs.note_batch(len(disturbed), breaches, max(len(touched), 1))

    def _go_back(self, key: Any, disturbance: Disturbance, news: News) -> None:
        """Replay a disturbed key, and tell what that changed."""
        began = self._time()
        on_demand = self.retraction.on_demand
        replay = self.handling.replay(key, disturbance, on_demand=on_demand)
        self.counts.replays += 1
        self.counts.replayed += replay.handled
        self._republish(key, replay, disturbance, news, on_demand=on_demand)
        self.counts.replaying += self._time() - began


def _known(columns: Columns, disturbed: dict[Any, Disturbance]) -> dict[Any, int]:
    """With which arrival of a batch the newest event of each key was known."""
    known = {key: disturbance.at for key, disturbance in disturbed.items()}
    keys = [None] * len(columns) if columns.keys is None else columns.keys
    for key, at in zip(keys, columns.at.tolist(), strict=True):
        known[key] = max(known.get(key, -1), at)
    return known


def _disturb(disturbed: dict[Any, Disturbance], key: Any, disturbance: Disturbance) -> None:
    known = disturbed.get(key)
    if known is None:
        disturbed[key] = disturbance
    else:
        known.add(disturbance)
