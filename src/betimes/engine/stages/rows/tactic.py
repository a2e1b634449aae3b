"""The tactic of rows: Python detectors get events one by one, on any level.

Stages never go back to most segments, so whatever only going back needs is made when a key goes
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypedDict

from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.snapshots.segments import read_segments, write_segments
from betimes.engine.snapshots.states import ABSENT
from betimes.engine.stages.rows.arriving import RowArrivals
from betimes.engine.stages.rows.handling import Handling
from betimes.engine.stages.rows.history import EventRows, RowSegment
from betimes.engine.stages.tactic import (
    Disturbance,
    Moment,
    Setting,
    Told,
)
from betimes.model.stored import Int, Place, require, shaped
from betimes.model.volumes import VolumeReader, VolumeWriter


class RowTactic(RowArrivals):
    """Hands events to Python detectors, by key."""

    weighs = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._handling = Handling(setting)
        self._history = self._handling.history
        self._disturbed: dict[Any, Disturbance] = {}
        """The keys that have to go back in this batch."""

    @property
    def passed(self) -> int | None:
        return self._handling.passed if self._handling.timed else None

    @property
    def next_due(self) -> int:
        return self._handling.deadlines.next

    def let_pass(self, time: int) -> None:
        self._handling.passed = max(self._handling.passed, time)

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        row = self._below.withdraw(output.id)
        if row is not None:
            return row
        key = self._key(output)
        segment = self._history.find(output.place)
        self._history.segments[segment].remove(key, output.place)
        self._setting.failures.mend(key, output.place, output.place)
        breach = output.place[0] <= final_to
        cause = ("retracted", output.event)
        self._disturb(key, Disturbance(segment, segment, output.place, cause, at, breach))
        return None

    def _disturb(self, key: Any, disturbance: Disturbance) -> None:
        known = self._disturbed.get(key)
        if known is None:
            self._disturbed[key] = disturbance
        else:
            known.add(disturbance)

    def _put_behind(self, late: EventRows, final_to: int) -> list[Output]:
        """Put events that land before handled ones in their places.

        Their keys have to go back, unless only events of other keys come after them: these events
        are handled at once. Returns what was made from them.
        """
        handling, made, newest = self._handling, list[Output](), dict[Any, int]()
        places, keys = late.places(), late.keys or [None] * len(late)
        follow = [handling.follows(key, place) for key, place in zip(keys, places, strict=True)]
        found = self._history.insert(late)
        rows = zip(found, places, keys, late.events, late.at.tolist(), follow, strict=True)
        for segment, place, key, event, at, follows in rows:
            if follows and key not in self._disturbed:
                newest[key] = max(at, newest.get(key, -1))
                outputs = handling.follow(segment, key, place, event, newest[key])
                if outputs is not None:
                    made += outputs
                    continue
            breach = place[0] <= final_to
            disturbance = Disturbance(segment, segment, place, ("late", event), -1, breach)
            self._disturb(key, disturbance)
        return made

    # Handling events

    def handle(self, events: EventRows, moment: Moment) -> Iterator[Told]:
        handling, history, disturbed = self._handling, self._history, self._disturbed
        if not (len(events) or disturbed or handling.timed):
            handling.costs.note_batch(0, 0, 1)
            return
        if events.rank is not None and len(events) > 1:
            events = events.sorted()
        behind = events.count_before(history.last)
        if behind:
            self._setting.counts.handled += behind
            yield Outputs.of(self._put_behind(events.part(0, behind), moment.final_to))
        if disturbed:
            yield from self._replay_all()
        certain = int(events.ts.searchsorted(moment.certain, side="right"))
        yield Outputs.of(handling.append(events, behind, certain))
        if handling.timed:
            due = handling.run_out(moment.time, _known(events, disturbed), moment.last)
            yield Outputs.of(list(chain.from_iterable(due)))
        handling.note_batch(disturbed.values())
        self._disturbed = {}

    def _replay_all(self) -> Iterator[Told]:
        """Let all disturbed keys go back; publishing what changed is part of what that costs."""
        counts, time = self._setting.counts, self._setting.time
        began = time()
        for key, disturbance in self._disturbed.items():
            replay = self._handling.replay(key, disturbance)
            counts.replays += 1
            counts.replayed += replay.handled
            yield replay
        counts.replaying += time() - began

    # Memory

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        gone = self._history.forget(before)
        return chain.from_iterable(segment.outputs.values() for segment in gone) if gone else ()

    def history(self) -> list[tuple[int, int]]:
        return [(segment.start[0], segment.weight) for segment in self._history.segments]

    @property
    def remembered(self) -> int:
        return self._history.size

    def snapshots(self) -> tuple[int, int]:
        logs = [segment.undo for segment in self._history.segments]
        saved = chain.from_iterable(log.values() for log in logs)
        return sum(map(len, logs)), self._handling.execution.states.size(saved)

    # Checkpoints

    def outputs(self) -> Outputs:
        made = (each for segment in self._history.segments for each in segment.outputs.values())
        return Outputs.of(list(chain.from_iterable(made)))

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        segments = self._history.segments
        return {
            **self._arrivals_kept(),
            "segments": write_segments(segments, volumes, settled, _written, self._setting.what),
            "last": self._history.last,
            "detectors": self._handling.detectors.state_of(),
            "passed": self._handling.passed,
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._resume_arrivals(kept)
        segments = read_segments(kept["segments"], volumes, _read, self._setting.what)
        self._history.segments[:] = segments
        self._history.last = shaped(kept["last"], Place, "the last event")
        handling = self._handling
        handling.passed = shaped(kept["passed"], Int, "how far time has come")
        detectors = shaped(kept["detectors"], dict[Any, Any], "the states of detectors")
        touched = segments[-1].undo.keys() if segments else set()
        require(touched <= detectors.keys(), "states of detectors are missing")
        handling.detectors.resume(detectors)
        if handling.timed:
            handling.deadlines.arm(detectors)


class _Segment(TypedDict):
    start: Place
    last: Place
    columns: list[Any] | None
    undo: list[tuple[Any, bool, Any]]
    outputs: list[tuple[Any, list[Any]]]


def _written(segment: RowSegment) -> dict[str, Any]:
    segment.compact()
    columns = segment.columns
    undo = segment.undo.items()
    return {
        "start": segment.start,
        "last": segment.last,
        "columns": None if columns is None else columns.state_of(),
        "undo": [(key, s is ABSENT, None if s is ABSENT else s) for key, s in undo],
        "outputs": [(key, Outputs.of(made).state_of()) for key, made in segment.outputs.items()],
    }


def _read(state: dict[str, Any]) -> RowSegment:
    state = shaped(state, _Segment, "history")
    segment = RowSegment(state["start"])
    if state["columns"] is not None:
        segment.extend(EventRows.resumed(state["columns"]), state["last"])
    segment.last = state["last"]  # a deadline that has passed stands behind all events
    segment.undo = {key: ABSENT if absent else saved for key, absent, saved in state["undo"]}
    segment.outputs = {key: list(Outputs.resumed(made)) for key, made in state["outputs"]}
    return segment


def _known(events: EventRows, disturbed: dict[Any, Disturbance]) -> dict[Any, int]:
    """The arrival of the batch with which the newest event of each key was known."""
    known = {key: disturbance.at for key, disturbance in disturbed.items()}
    keys = [None] * len(events) if events.keys is None else events.keys
    for key, at in zip(keys, events.at.tolist(), strict=True):
        known[key] = max(known.get(key, -1), at)
    return known
