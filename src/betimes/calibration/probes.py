"""Measuring: the delays of what arrives at each detector, type by type.

The **delay** of an event is defined as in the ordering unit: the clock at the next update minus its
time. An ordering unit keeps only the largest delay. Here every type has its own, so that you can
see where a slack comes from. There are two additions, which a unit that learns on the way cannot
know or does not need:

* Events after the last update of the clock have a delay, too, because the clock never goes back.
* The time of an event must still be open when it arrives: if the event is behind the clock, it
  needs a slack greater than `clock - ts`. With derived events, this also holds for an event at the
  clock: there, events of the same time have an order other than that of their arrival.

If each source has its own clock, the unit measures the delays of each by it; the first addition
holds there as well, and the second is not needed.

A notice, the pseudo event by which a detector tells its readers that it now waits longer, counts as
an event.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.hierarchy import Hierarchy
from betimes.engine.news.outputs import CAUSE, TS, Outputs
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.observers import Observer
from betimes.model import PSEUDO, EventBatch
from betimes.ordering import NEVER, Ordered, OrderingUnit

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FAR = 2**63 - 1


class Probe:
    """Notes the largest delay of each type at one ordering unit."""

    def __init__(self, *, ranked: bool = False) -> None:
        self.delays: dict[str, int] = {}
        self.step = 0
        """The largest step of the clock."""
        self._ranked = ranked
        """Whether events of one time have an order other than that of their arrival."""
        self._clock = NEVER
        self._open: dict[str, int] = {}
        """The oldest event of each type since the last update of the clock."""

    def watch(self, unit: OrderingUnit, batch: EventBatch, answer: Ordered) -> None:
        """Note a batch that a unit has answered."""
        self.note(batch, answer.clock, unit.stats.clock_offsets, unit.max_skew)

    def note(self, batch: EventBatch, clock: Ints, moving: dict[str, int], max_skew: int) -> None:
        """Note a batch; `clock` is the clock after each arrival, `moving` says what moves it.

        If the clock falls back by more than `max_skew`, it was implausible, and the unit has
        started again.
        """
        before = np.concatenate(([self._clock], clock[:-1]))
        again = np.flatnonzero((clock < before) & ((clock == NEVER) | (clock < before - max_skew)))
        if len(again):
            self.delays.clear()
            self._open.clear()
            self.step, self._clock = 0, NEVER
            first = int(again[-1])
            batch, clock = batch.part(first, len(batch)), clock[first:]
        if len(batch):
            self._note(batch, clock, moving)

    def _note(self, batch: EventBatch, clock: Ints, moving: dict[str, int]) -> None:
        count = len(batch)
        before = np.concatenate(([self._clock], clock[:-1]))
        known = before != NEVER
        times = batch.ts if batch.head_start is None else batch.ts - batch.head_start
        updates = _updates(batch, before, clock, moving)
        following = np.where(updates, np.arange(count), count)
        following = np.minimum.accumulate(following[::-1])[::-1]
        if following[0] < count:
            self._close(int(clock[following[0]]))
        delays = np.append(clock, clock[-1])[following] - times
        behind = before >= times if self._ranked else before > times
        delays = np.maximum(delays, np.where(known & behind, before - times + 1, 0))
        delays[np.append(clock, clock[-1])[following] == NEVER] = 0
        largest, oldest = np.zeros(len(batch.types), np.int64), np.full(len(batch.types), FAR)
        np.maximum.at(largest, batch.codes, delays)
        still_open = following == count
        np.minimum.at(oldest, batch.codes[still_open], times[still_open])
        present = np.bincount(batch.codes, minlength=len(batch.types)) > 0
        for code in np.flatnonzero(present).tolist():
            name = batch.types[code]
            self._larger(name, int(largest[code]))
            if oldest[code] != FAR:
                self._open[name] = min(int(oldest[code]), self._open.get(name, FAR))
        if known.any():
            self.step = max(self.step, int((clock[known] - before[known]).max()))
        self._clock = int(clock[-1])

    def _close(self, clock: int) -> None:
        """The clock was updated: what waited for it has its delay."""
        for name, oldest in self._open.items():
            self._larger(name, clock - oldest)
        self._open.clear()

    def _larger(self, name: str, delay: int) -> None:
        self.delays[name] = max(delay, self.delays.get(name, 0))


def delays_at(unit: OrderingUnit, probe: Probe) -> dict[str, int]:
    """The largest delay of each type at a unit that a probe has watched."""
    if unit.clocks is None:
        return probe.delays
    stats = unit.stats
    found = dict(stats.delays)
    _take(found, unit.clocks.still_open(list(stats.types)))
    return found


def _updates(batch: EventBatch, before: Ints, clock: Ints, moving: dict[str, int]) -> Mask:
    """Which arrivals update the clock: it moves, or a clock event confirms it."""
    offsets = np.array([moving.get(name, 0) for name in batch.types], np.int64)
    moves = np.array([name in moving for name in batch.types], np.bool_)
    again = moves[batch.codes] & (batch.ts + offsets[batch.codes] == clock)
    updates: Mask = (clock != before) | again
    return updates


class Measured(msgspec.Struct):
    """What a run has measured for each detector; it travels between processes."""

    delays: dict[str, dict[str, int]] = {}
    """By detector and type, also of types that only move its clock."""
    back_setting: dict[str, dict[str, int]] = {}
    slack: dict[str, int] = {}
    steps: dict[str, int] = {}
    clocks: dict[str, str] = {}
    """Clock types that were learned."""
    offsets: dict[str, dict[str, int]] = {}
    late: int = 0
    rows: int = 0

    def add(self, other: Measured) -> None:
        """Merge: the larger value of each, but the first clock and the smaller offset."""
        for mine, theirs in (
            (self.delays, other.delays), (self.back_setting, other.back_setting),
        ):  # fmt: skip
            for name, values in theirs.items():
                _take(mine.setdefault(name, {}), values)
        _take(self.slack, other.slack)
        _take(self.steps, other.steps)
        self.clocks = other.clocks | self.clocks
        for name, values in other.offsets.items():
            known = self.offsets.setdefault(name, dict(values))
            for type, offset in values.items():
                known[type] = min(offset, known.get(type, offset))
        self.late += other.late
        self.rows += other.rows


def _take(largest: dict[str, int], values: dict[str, int]) -> None:
    for name, value in values.items():
        largest[name] = max(value, largest.get(name, 0))


class Measuring(Observer):
    """Watches the stages of an engine, for all keys."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._probes: dict[Stage, Probe] = {}
        self._back_setting: dict[str, dict[str, int]] = {node.name: {} for node in hierarchy}

    def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:
        if stage not in self._probes:
            self._probes[stage] = Probe(ranked=bool(stage.reads))
        self._probes[stage].watch(stage.unit, batch, answer)

    def made(self, stage: Stage, outputs: Outputs) -> None:
        largest = self._back_setting[stage.node.name]
        events, back = outputs.events, outputs.numbers[CAUSE] - outputs.numbers[TS]
        for code in np.unique(events.codes).tolist():
            mine = max(int(back[events.codes == code].max()), 0)
            largest[events.types[code]] = max(mine, largest.get(events.types[code], 0))

    def measured(self, rows: int) -> Measured:
        """Everything that was seen in this many rows; with several keys, the largest values."""
        total = Measured(back_setting=self._back_setting, rows=rows)
        for stage, probe in self._probes.items():
            total.add(self._of(stage, probe))
        return total

    def _of(self, stage: Stage, probe: Probe) -> Measured:
        name, stats = stage.node.name, stage.unit.stats
        clock = self._hierarchy.clock_of(stage.node)
        learned = clock is None and len(stats.clock_types) == 1
        several = len(clock or ()) > 1
        delays = delays_at(stage.unit, probe)
        taken = {t: d for t, d in delays.items() if t == PSEUDO or stage.node.takes(t)}
        return Measured(
            delays={name: taken},
            slack={name: stats.slack},
            steps={name: probe.step},
            clocks={name: stats.clock_types[0]} if learned else {},
            offsets={name: dict(stats.clock_offsets)} if several else {},
            late=stats.late,
        )
