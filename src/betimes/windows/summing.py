"""The tactic of aggregates over windows of time: compiled, over columns.

Windows of time are the same for all keys, and which events a window has follows from their times
alone. So nothing has to be cut: events are kept in one order, and when time has come to the end of
a window, one pass over its events gives the aggregates of all keys (`betimes.windows.kernel`).

There is no state to go back to, either. An event that lands in a window that is still open is just
there. One that lands in windows that are over makes these be calculated again for its key; so does
an output of another stage that is taken back. Only what has changed is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from betimes.engine.news.comparing import made_again
from betimes.engine.news.outputs import CAUSE, Output, Outputs
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.tactic import END, ColumnReplay, Moment, Setting, Told
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.windows.operators import OperatorSpec
from betimes.windows.results import Due
from betimes.windows.shapes import TimeWindow
from betimes.windows.standing import Mask, Standing
from betimes.windows.taking import AggregateArrivals, Changed
from betimes.windows.timeline import KEY, TS


class AggregateTactic(AggregateArrivals):
    """Runs aggregates over windows of time."""

    def __init__(self, window: TimeWindow, spec: OperatorSpec, setting: Setting) -> None:
        super().__init__(spec, setting)
        self._window = window
        self._out = Standing()
        """What is out; the time of a cause is the end of a window."""

    # Time

    @property
    def next_due(self) -> int:
        for end in self._ends(self._passed, END):
            return end
        return END

    def _ends(self, after: int, until: int) -> Iterator[int]:
        """The ends of windows with events, after a time and up to another."""
        window, ts = self._window, self._timeline.numbers[TS]
        number = (after - window.offset - window.size) // window.slide + 1
        while True:
            row = int(ts.searchsorted(window.offset + number * window.slide))
            if row == len(ts):
                return
            number = max(number, self._first(ts.item(row)))
            end = window.offset + number * window.slide + window.size
            if end > until:
                return
            yield end
            number += 1

    def _first(self, ts: int) -> int:
        """The number of the first window that a time belongs to."""
        return (ts - self._window.offset - self._window.size) // self._window.slide + 1

    def _ends_of(self, ts: int) -> range:
        """The ends of the windows that a time belongs to."""
        window = self._window
        first = window.offset + self._first(ts) * window.slide + window.size
        return range(first, ts + window.size + 1, window.slide)

    # Handling events

    def handle(self, events: Slice, moment: Moment) -> Iterator[Told]:
        if self._mixed:
            events = events.sorted()
        before, since = self._passed, int(events.at.min()) if len(events) else END
        self._setting.counts.handled += len(events)
        self._take_in(events)
        changed = [*self._late(events, before), *self._taken_back]
        if changed:
            yield from self._go_back(changed, before, since, moment)
        last = int(events.ts[-1]) if len(events) else -1
        self._passed = max(before, moment.time, last)
        ends = list(self._ends(before, self._passed))
        if ends:
            wanted = np.ones(len(self._keys.values), np.bool_)
            made = self._calculate(ends, wanted, since, moment)
            self._out.keep(made)
            yield made
        self._taken_back = []

    def _late(self, events: Slice, passed: int) -> list[Changed]:
        """The events that belong to windows that are over."""
        window, ts, codes = self._window, events.ts, self._codes_of(events)
        first = (ts - window.offset - window.size) // window.slide + 1
        late = np.flatnonzero(window.offset + first * window.slide + window.size <= passed)
        return [
            Changed(
                int(ts[row]), int(codes[row]), -1, f"late {events.types([row])[0]} at {ts[row]}"
            )
            for row in late.tolist()
        ]

    def _go_back(
        self, changed: list[Changed], passed: int, since: int, moment: Moment
    ) -> Iterator[ColumnReplay]:
        """Calculate windows again that are over."""
        began, counts = self._setting.time(), self._setting.counts
        times = {ts for ts, _, _, _ in changed}
        ends = sorted({end for ts in times for end in self._ends_of(ts) if end <= passed})
        if not ends:
            return
        wanted = np.zeros(len(self._keys.values), np.bool_)
        wanted[[key for _, key, _, _ in changed]] = True
        old = self._out.take_out(ends[0], partial(_is_of, ends, wanted))
        self._setting.outputs.unmake(old)
        made = self._calculate(ends, wanted, since, moment)
        again, was = made_again(old, made)
        replay = ColumnReplay(None, (min(times), 0, 0), moment.last, on_demand=True)
        replay.fresh, replay.gone = made.without(again), old.without(was)
        why = {key: reason for _, key, _, reason in changed}
        replay.why = [why[int(key)] for key in replay.gone.keys]
        self._out.keep(old.pick(was))
        self._out.keep(replay.fresh)
        low, high = (
            self._timeline.numbers[TS]
            .searchsorted((ends[0] - self._window.size, ends[-1]))
            .tolist()
        )
        replay.handled = int(wanted[self._timeline.numbers[KEY, low:high]].sum())
        counts.replays += int(wanted.sum())
        counts.replayed += replay.handled
        counts.replaying += self._setting.time() - began
        yield replay

    def _calculate(self, ends: list[int], wanted: Any, since: int, moment: Moment) -> Outputs:
        """What the wanted keys have in the windows with these ends."""
        newest: dict[int, int] = {}
        for _, key, at, _ in self._taken_back:
            newest[key] = max(newest.get(key, -1), at)
        due = Due(
            np.array(ends, np.int64) - self._window.size, np.array(ends, np.int64), wanted, since,
            newest, moment.last,
        )  # fmt: skip
        return self._results.of(due, self._keys.values)

    # Memory

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        self._reach = max(self._reach, before)
        yield from self._out.forget(before)
        self._timeline.forget(min(before, self._passed + 1) - self._window.size)

    # Checkpoints

    def outputs(self) -> Outputs:
        return self._out.all()

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        return self._arrivals_kept() | {
            "timeline": self._timeline.state_of(volumes),
            "out": self._out.state_of(volumes, settled, self._setting.what),
            "times": (self._passed, self._reach),
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._resume_arrivals(kept)
        self._timeline.resume(kept["timeline"], volumes, len(self._keys.values))
        self._out.resume(kept["out"], volumes, self._setting.what)
        self._passed, self._reach = kept["times"]


def _is_of(ends: list[int], wanted: Mask, outputs: Outputs) -> Mask:
    """Which outputs are of windows with these ends, and of wanted keys."""
    found: Mask = np.isin(outputs.numbers[CAUSE], ends) & wanted[np.asarray(outputs.keys, np.int64)]
    return found
