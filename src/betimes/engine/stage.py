"""A stage: one detector behind its ordering unit, with the history that lets it go back.

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

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.arrivals import Arrivals, Waiting
from betimes.engine.attenuation import Load
from betimes.engine.checkpoints import CheckpointModel, Costs
from betimes.engine.hierarchy import Node
from betimes.engine.history import ABSENT, Columns, History, Segment, pick
from betimes.engine.messages import News, Output, Place
from betimes.engine.retraction import Retraction
from betimes.engine.runner import DetectorFailed, Made, Runner
from betimes.engine.snapshots import Snapshotter, same_state
from betimes.engine.stats import StageCounts
from betimes.model.errors import BetimesError, EventError
from betimes.model.event import Event
from betimes.ordering import NEVER, Ordered, OrderingUnit

Ints = npt.NDArray[np.int64]

END = 2**63 - 1
_ENCODER = msgspec.json.Encoder(enc_hook=repr, order="sorted")
_SAMPLE = 8
"""One of so many snapshots is timed: to ask for the time takes as long as a small snapshot."""
_NONE: Ints = np.empty(0, np.int64)


class Disturbance(msgspec.Struct):
    """What happened to the past of a key: in which segments, why, and at which arrival."""

    first: int
    last: int
    why: str
    at: int
    breach: bool
    """Whether it goes back to before what was certain."""


class Stage:
    """One detector, its ordering unit, its history."""

    def __init__(
        self,
        node: Node,
        rank: int,
        unit: OrderingUnit,
        *,
        checkpoints: CheckpointModel,
        retraction: Retraction,
        retention: int,
        late: str,
        errors: str,
        grouped: bool,
        time: Callable[[], float],
    ) -> None:
        self.node = node
        self.rank = rank
        self.unit = unit
        self.history = History()
        self.costs = Costs()
        self.retraction = retraction
        self.counts = StageCounts()
        self.final_to = -1
        """Everything up to this time is settled and final."""
        self._settled = -1
        """Order is certain up to this time, as far as the clock tells."""
        self._checkpoints = checkpoints
        self._retention = retention
        self._late = late
        self._errors = errors
        self._grouped = grouped
        self._time = time
        self._snapshotter = Snapshotter(node.maker, node.name)
        self._runner = Runner(node)
        self._detectors: dict[Any, Any] = {}
        self._methods: dict[Any, Any] = {}
        self._waiting = Waiting()
        self._open: dict[str, Output] = {}
        self._unsure: dict[str, int] = {}
        self._copies: dict[str, set[int]] = {}
        self._too_late: set[int] = set()
        self._path: tuple[Ints, Ints, Ints] = (_NONE, _NONE, _NONE)
        self._before: tuple[int, int] = (NEVER, unit.stats.slack)
        self._loaded = (0.0, 0.0, 0)

    # One batch

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
        columns = self._handed(answer, arrivals.at, row, news)
        self._take_in(columns, disturbed, news)
        self._waiting.trim(self.unit.held_rows)
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def finish(self, last: int) -> News:
        """The stream has ended: handle what is left; everything is final."""
        began = self._time()
        news = News()
        self._path = (_NONE, _NONE, _NONE)
        columns = self._handed(self.unit.finish(), np.array([last]), 0, news)
        self._take_in(columns, {}, news)
        self._settled = END
        self._unsure.clear()
        self._settle(news)
        self.counts.busy += self._time() - began
        return news

    def _withdraw(self, output: Output, disturbed: dict[Any, Disturbance], at: int) -> None:
        """An event from below was retracted."""
        self._unsure.pop(output.id, None)
        row = self._waiting.rows.pop(output.id, None)
        if row is not None:
            del self._waiting.outputs[row]
            self.unit.discard([row])
            return
        if self.history.forgotten is not None and output.place[0] <= self.history.forgotten:
            raise BetimesError(
                f"detector {self.node.name!r} cannot take back {output.event!r}: its place is "
                "older than the history that is kept; raise retention="
            )
        key = self._key(output.event, output.group)
        segment = self.history.find(output.place)
        self.history.segments[segment].remove(key, output.place)
        breach = output.place[0] <= self.final_to
        _disturb(disturbed, key, segment, f"retracted {_name(output.event)}", at, breach)

    def _follow(self, arrivals: Arrivals, answer: Ordered, news: News, row: int) -> None:
        """Note the path of clock and slack, how far order is certain, and what comes too late."""
        clock, slack = answer.clock, answer.slack
        self._path = (arrivals.at, clock, slack)
        if not len(clock):
            return
        # As long as nothing is learned, the newest instant stays open.
        certain = np.where(clock == NEVER, -1, clock - np.maximum(slack, 1))
        certain = np.maximum(np.maximum.accumulate(certain), self._settled)
        if self._late != "repair":
            before = np.concatenate(([self._settled], certain[:-1]))
            late = np.flatnonzero(arrivals.batch.ts < before)
            self._too_late.update((row + late).tolist())
        self._settled = int(certain[-1])
        for index in np.flatnonzero(np.diff(slack, prepend=self._before[1]) > 0).tolist():
            ts = max(int(clock[index] - slack[index]), 0)
            news.notices.append((int(arrivals.at[index]), ts))
        self._before = (int(clock[-1]), int(slack[-1]))

    def _handed(self, answer: Ordered, at: Ints, row: int, news: News) -> Columns:
        """What the unit hands out for the first time, in order of place."""
        released, replayed = answer.released, answer.replayed
        rows, places, ts = released.rows, released.at, released.ts
        if len(replayed):
            new = replayed.at >= 0
            rows = np.concatenate((replayed.rows[new], rows))
            places = np.concatenate((replayed.at[new], places))
            ts = np.concatenate((replayed.ts[new], ts))
        if len(replayed) or len(answer.late):
            order = np.lexsort((rows, ts))
            rows, places, ts = rows[order], places[order], ts[order]
        numbers = rows.tolist()
        events, ties, groups = self._waiting.take(numbers)
        made = at[np.clip(places - row, 0, len(at) - 1)].tolist() if len(at) else []
        columns = Columns(ts.tolist(), [0] * len(numbers), ties, events, made, None)
        derived = self._place_outputs(columns, numbers)
        columns.keys = self._keys(events, groups)
        forgotten = self.history.forgotten
        if self._too_late or (forgotten is not None and len(ts) and ts.min() <= forgotten):
            columns = self._without_late(columns, numbers, news)
        if derived:
            columns = columns.sorted()
        return columns

    def _place_outputs(self, columns: Columns, rows: list[int]) -> bool:
        """Give outputs of other stages their own place."""
        waiting = self._waiting
        if not waiting.outputs:
            return False
        for index, row in enumerate(rows):
            output = waiting.outputs.pop(row, None)
            if output is not None:
                _, columns.rank[index], columns.tie[index] = output.place
                del waiting.rows[output.id]
        return True

    def _without_late(self, columns: Columns, rows: list[int], news: News) -> Columns:
        """Leave out what comes too late: by policy, or because the history is gone."""
        forgotten = -1 if self.history.forgotten is None else self.history.forgotten
        wanted = []
        for index, row in enumerate(rows):
            ts = columns.ts[index]
            if row in self._too_late or ts <= forgotten:
                self._too_late.discard(row)
                self.counts.late += 1
                if self._late != "drop":
                    news.late.append((columns.events[index], self._settled - ts, columns.at[index]))
            else:
                wanted.append(index)
        return columns if len(wanted) == len(rows) else columns.pick(wanted)

    def _keys(self, events: list[Event], groups: list[Any] | None) -> list[Any] | None:
        by = self.node.by
        if by is None:
            return groups
        try:
            keys = list(map(itemgetter(by), map(attrgetter("payload"), events)))
        except KeyError:
            culprit = next(event for event in events if by not in event.payload)
            raise EventError(
                f"detector {self.node.name!r} has by={by!r}, but {culprit!r} has no {by!r}"
            ) from None
        return keys if groups is None else list(zip(groups, keys, strict=True))

    def _key(self, event: Event, group: Any) -> Any:
        keys = self._keys([event], [group] if self._grouped else None)
        return None if keys is None else keys[0]

    def _group(self, key: Any) -> Any:
        """The part of a key that is the engine's own."""
        if not self._grouped:
            return None
        return key if self.node.by is None else key[0]

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
            "unit": self.unit.state_of(),
            "waiting": self._waiting.state_of(),
            "outputs": [output.state_of() for output in outputs],
            "open": [place[id(output)] for output in self._open.values()],
            "segments": segments,
            "last": self.history.last,
            "forgotten": self.history.forgotten,
            "detectors": {
                key: self._snapshotter.take(detector) for key, detector in self._detectors.items()
            },
            "unsure": self._unsure,
            "copies": self._copies,
            "too_late": self._too_late,
            "settled": (self._settled, self.final_to),
            "before": self._before,
            "counts": [getattr(self.counts, name) for name in self.counts.__struct_fields__],
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
        self.history.last, self.history.forgotten = kept["last"], kept["forgotten"]
        for key, snapshot in kept["detectors"].items():
            self._install(key, self._snapshotter.restore(snapshot))
        self._unsure, self._copies = kept["unsure"], kept["copies"]
        self._too_late = kept["too_late"]
        self._settled, self.final_to = kept["settled"]
        self._before = kept["before"]
        self.counts = StageCounts(*kept["counts"])

    def load(self) -> Load:
        """What the stage did since it was asked last."""
        counts, before = self.counts, self._loaded
        self._loaded = (counts.busy, counts.replaying, counts.handled)
        return Load(
            busy=counts.busy - before[0],
            replaying=counts.replaying - before[1],
            released=counts.handled - before[2],
            slack=self.unit.stats.slack,
        )

    # Handling events

    def _take_in(self, columns: Columns, disturbed: dict[Any, Disturbance], news: News) -> None:
        """Events behind what was handled disturb their keys, the others follow."""
        history = self.history
        behind = columns.count_before(history.last)
        if behind:
            for row in range(behind):
                key = columns.key(row)
                segment = history.find(columns.place(row))
                history.segments[segment].insert(key, columns.part(row, row + 1))
                why = f"late {_name(columns.events[row])}"
                breach = columns.ts[row] <= self.final_to
                _disturb(disturbed, key, segment, why, columns.at[row], breach)
        for key, disturbance in disturbed.items():
            self._replay(key, disturbance, news)
        touched = set(disturbed)
        certain = bisect_right(columns.ts, self._certain())
        while behind < len(columns):
            speculative = behind >= certain
            length = self._checkpoints.length(self.costs, speculative=speculative)
            room = length - history.segments[-1].size if history.segments else 0
            if room <= 0:
                history.segments.append(Segment(columns.place(behind)))
                room = length
            end = min(behind + room, len(columns) if speculative else certain)
            self._handle(columns.part(behind, end), history.segments[-1], news)
            touched.update(history.segments[-1].undo)
            behind = end
        breaches = sum(disturbance.breach for disturbance in disturbed.values())
        self.costs.note_batch(len(disturbed), breaches, len(touched))

    def _certain(self) -> int:
        """Events up to this time can only be disturbed by one that breaks the slack."""
        return min(self._settled, min(self._unsure.values(), default=END + 1) - 1)

    def _handle(self, columns: Columns, segment: Segment, news: News) -> None:
        """Handle events that follow all others, as part of the last segment."""
        known = len(segment.undo)
        began = self._time()
        made, columns = self._run_forward(segment, columns)
        if not len(columns):
            return
        self.costs.note_run(self._time() - began, len(columns), len(segment.undo) - known)
        segment.extend(columns)
        self.history.last = columns.place(len(columns) - 1)
        self.counts.handled += len(columns)
        made_at = self._made_at(columns) if made else columns.at.__getitem__
        for number, events in _by_number(made):
            key = columns.key(number)
            place, cause = columns.place(number), columns.events[number]
            at = made_at(number)
            mine = [self._output(e, n, place, cause, at, key) for n, e in enumerate(events)]
            segment.outputs.setdefault(key, []).extend(mine)
            self._publish(mine, news)

    def _run_forward(self, segment: Segment, columns: Columns) -> tuple[list[Made], Columns]:
        """Hand events to their detectors; with errors="skip", without those at which they fail."""
        if self._errors == "stop":
            return self._run(segment, columns), columns
        while len(columns):
            before = {key: self._snapshotter.take(d) for key, d in self._detectors.items()}
            try:
                return self._run(segment, columns), columns
            except DetectorFailed as failure:
                self.counts.errors += 1
                columns = columns.pick([i for i in range(len(columns)) if i != failure.number])
                for key in list(self._detectors):
                    if key in before:
                        self._install(key, self._snapshotter.restore(before[key]))
                    else:
                        self._remove(key)
                        segment.undo.pop(key, None)
        return [], columns

    def _run(self, segment: Segment, columns: Columns) -> list[Made]:
        keys = columns.keys
        if keys is None:
            self._touch(segment, None)
            return self._runner.run(self._methods[None], columns.events)
        if self.node.maker.kind != "batch":
            # Methods of the keys that the segment has touched: one look-up an event.
            methods = {key: self._methods[key] for key in segment.undo}
            touch = partial(self._touch, segment)
            return self._runner.run_keyed(methods, touch, columns.events, keys)
        made: list[Made] = []
        rows: dict[Any, list[int]] = {}
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)
        for key, mine in rows.items():
            self._touch(segment, key)
            for number, event in self._runner.run(
                self._methods[key], [columns.events[row] for row in mine]
            ):
                made.append((mine[number], event))
        return sorted(made, key=lambda pair: pair[0])

    def _made_at(self, columns: Columns) -> Callable[[int], int]:
        """The arrival with which an event and all before it of its key had been released."""
        at, keys = columns.at, columns.keys
        if self.unit.attenuation >= 1.0:
            return at.__getitem__
        column = np.array(at)
        newest = np.maximum.accumulate(column)

        def made_at(number: int) -> int:
            if newest[number] == at[number]:
                return at[number]
            if keys is None:
                return int(newest[number])
            later = np.flatnonzero(column[:number] > at[number]).tolist()
            return max([at[number], *(at[row] for row in later if keys[row] == keys[number])])

        return made_at

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
        elif self.counts.snapshots % _SAMPLE:
            segment.undo[key] = self._snapshotter.take(detector)
            self.counts.snapshots += 1
        else:
            began = self._time()
            segment.undo[key] = self._snapshotter.take(detector)
            self.costs.note_snapshot(self._time() - began)
            self.counts.snapshots += 1
        return self._methods[key]

    def _install(self, key: Any, detector: Any) -> None:
        self._detectors[key] = detector
        self._methods[key] = self._runner.method(detector)

    def _remove(self, key: Any) -> None:
        self._detectors.pop(key, None)
        self._methods.pop(key, None)

    # Going back

    def _replay(self, key: Any, disturbance: Disturbance, news: News) -> None:
        """Handle the events of a key again, from the snapshot before its first disturbance."""
        began = self._time()
        affected = self.history.segments[disturbance.first :]
        detector = self._restored(key, affected)
        on_demand = self.retraction.on_demand
        old: list[Output] = []
        new: list[Output] = []
        count = 0
        newest = disturbance.at
        for index, segment in enumerate(affected, disturbance.first):
            rows = segment.rows(key)
            if not rows or segment.columns is None:
                segment.undo.pop(key, None)
                old += segment.outputs.pop(key, ())
                continue
            state = ABSENT if detector is None else self._snapshotter.take(detector)
            if on_demand and index > disturbance.last and key in segment.undo:
                self.counts.compared += 1
                if same_state(segment.undo[key], state):
                    break
            segment.undo[key] = state
            detector = detector or self._snapshotter.make()
            before = segment.outputs.pop(key, [])
            made, rows = self._run_again(detector, segment, key)
            count += len(rows)
            columns = segment.columns.pick(rows)
            after, newest = self._compare(made, columns, before, key, newest)
            if after:
                segment.outputs[key] = after
            old += before
            new += after
        else:
            self._remove(key) if detector is None else self._install(key, detector)
        self.counts.replays += 1
        self.counts.replayed += count
        self._republish(old, new, disturbance.why, news)
        self.counts.replaying += self._time() - began

    def _restored(self, key: Any, affected: list[Segment]) -> Any:
        """A detector in the state that the key had before these segments; None if it had none."""
        for segment in affected:
            if key in segment.undo:
                saved = segment.undo[key]
                return None if saved is ABSENT else self._snapshotter.restore(saved)
        known = self._detectors.get(key)
        # A copy: if the replay comes to the same state, the known one stays in place.
        return known and self._snapshotter.restore(self._snapshotter.take(known))

    def _run_again(self, detector: Any, segment: Segment, key: Any) -> tuple[list[Made], list[int]]:
        """Hand events to a detector; with errors="skip", without those at which it fails."""
        assert segment.columns is not None
        start = segment.undo[key]
        while True:
            rows = segment.rows(key)
            try:
                method = self._runner.method(detector)
                return self._runner.run(method, pick(segment.columns.events, rows)), rows
            except DetectorFailed as failure:
                if self._errors == "stop":
                    raise
                self.counts.errors += 1
                segment.remove(key, segment.columns.place(rows[failure.number]))
                fresh = (
                    self._snapshotter.make()
                    if start is ABSENT
                    else self._snapshotter.restore(start)
                )
                vars(detector).update(vars(fresh))

    def _compare(
        self, made: list[Made], columns: Columns, before: list[Output], key: Any, newest: int
    ) -> tuple[list[Output], int]:
        """Outputs of a replayed segment; those that were there before stay the same objects."""
        for output in before:
            self._copies[output.base].discard(output.copy)
        known = {(output.id, output.place): output for output in before}
        after = []
        done = 0
        for number, events in _by_number(made):
            newest = max(newest, *columns.at[done : number + 1])
            done = number + 1
            place, cause = columns.place(number), columns.events[number]
            for n, event in enumerate(events):
                output = self._output(event, n, place, cause, newest, key)
                after.append(known.get((output.id, output.place), output))
        return after, max(newest, *columns.at[done:], newest)

    # Outputs

    def _output(
        self, event: Event, n: int, cause: Place, cause_event: Event, at: int, key: Any
    ) -> Output:
        """Give an event that the detector made its identity and its place."""
        encoded = encode((self.node.name, key, event.type, event.ts, event.payload))
        base = blake2b(encoded, digest_size=12).hexdigest()
        copies = self._copies.setdefault(base, set())
        copy = 0
        while copy in copies:
            copy += 1
        copies.add(copy)
        arrivals, clocks, slacks = self._path
        index = int(arrivals.searchsorted(at, side="right")) - 1
        clock, slack = self._before
        if index >= 0:
            clock, slack = int(clocks[index]), int(slacks[index])
        if clock == NEVER:
            clock = cause[0]
        tie: tuple[Any, ...] = (cause, n)
        if self.node.maker.kind == "batch":
            tie = (encode(key), cause, n)
        return Output(
            id=f"{base}-{copy}" if copy else base,
            event=event,
            place=(event.ts, self.rank, tie),
            cause=cause,
            cause_event=cause_event,
            at=at,
            detected_at=clock,
            slack=slack,
            head_start=max(0, cause[0] + slack - clock),
            group=self._group(key),
            base=base,
            copy=copy,
        )

    def _publish(self, outputs: list[Output], news: News) -> None:
        news.inserted += outputs
        for output in outputs:
            self._open[output.id] = output
            self.counts.note_made(output.detected_at - output.event.ts)

    def _republish(self, old: list[Output], new: list[Output], why: str, news: News) -> None:
        """Tell what a replay changed: the differences, or everything if retraction is full."""
        stay = {id(output) for output in new} & {id(output) for output in old}
        gone = [output for output in old if id(output) not in stay]
        come = [output for output in new if id(output) not in stay]
        self.retraction.note(all=len(old), changed=len(gone))
        if not self.retraction.on_demand:
            gone, come = old, new
        for output in gone:
            output.why = why
            self._open.pop(output.id, None)
        self.counts.retracted += len(gone)
        news.deleted += gone
        self._publish(come, news)

    def _settle(self, news: News) -> None:
        """Outputs become final; what is older than anybody may still ask for is forgotten."""
        self.final_to = self._certain()
        fresh = {id(o) for o in news.inserted} - {id(o) for o in news.deleted}
        clock = self._before[0]
        for output in [o for o in self._open.values() if o.cause[0] <= self.final_to]:
            del self._open[output.id]
            self.counts.note_final(clock - output.event.ts)
            if not output.final:
                output.final = True
                if id(output) not in fresh:
                    news.confirmed.append(output)
        for segment in self.history.forget(self.final_to - self._retention):
            for outputs in segment.outputs.values():
                for output in outputs:
                    self._copies.pop(output.base, None)


def _disturb(
    disturbed: dict[Any, Disturbance], key: Any, segment: int, why: str, at: int, breach: bool
) -> None:
    known = disturbed.get(key)
    if known is None:
        disturbed[key] = Disturbance(segment, segment, why, at, breach)
        return
    known.breach = known.breach or breach
    known.first = min(known.first, segment)
    known.last = max(known.last, segment)
    known.at = max(known.at, at)


def _name(event: Event) -> str:
    return f"{event.type} at {event.ts}"


def _by_number(made: list[Made]) -> Iterator[tuple[int, list[Event]]]:
    """What was made, by the number of the event that it was made from."""
    for number, pairs in groupby(made, key=lambda pair: pair[0]):
        yield number, [event for _, event in pairs]


def encode(content: object) -> bytes:
    """Data as bytes that are equal if and only if the data is."""
    return _ENCODER.encode(content)
