"""The tactic of aggregates over count windows and sessions: compiled, over columns.

Such windows belong to one key, and where they end depends on all events before. The events of all
keys are in one order; with each goes its position among those of its key and, in a session, the
position at which the session begins. So cutting can go on from any event (`kernel/runs.py`).

There is no state to go back to. Whatever happens to the past of a key, an event that comes late or
one that is taken back, has a time. Windows of the key that end before stay what they are. All later
ones are cut and calculated again, which costs as much as came since; only what has changed is
published.

Events are dropped once no window needs them: with count windows, the newest ones of a key stay,
however old they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from betimes.engine.news.comparing import made_again
from betimes.engine.news.outputs import CAUSE, Output, Outputs
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.slices.events import Slice
from betimes.engine.stages.tactic import END, ColumnReplay, Ints, Moment, Setting, Told
from betimes.model import stored
from betimes.model.coded import Coded
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.windows.cutting import NO_GAP, too_many
from betimes.windows.kernel import cut_counts, cut_gaps, gather, needed
from betimes.windows.operators import OperatorSpec
from betimes.windows.results import Runs
from betimes.windows.shapes import CountWindow, GapWindow
from betimes.windows.standing import Mask, Standing
from betimes.windows.taking import AggregateArrivals
from betimes.windows.timeline import AT, KEY, PLAIN, TS

TYPE, POSITION, START = range(PLAIN, PLAIN + 3)
"""More rows of the timeline: the type of an event, its position, where its session begins."""

_FEW = 64
"""So many events are not worth dropping."""


class RunTactic(AggregateArrivals):
    """Runs aggregates over count windows, or over sessions."""

    def __init__(
        self, window: CountWindow | GapWindow, spec: OperatorSpec, setting: Setting
    ) -> None:
        super().__init__(spec, setting, START + 1)
        self._size, self._slide, self._gap, self._limit = 1, 1, 0, 0
        if isinstance(window, GapWindow):
            self._gap, self._limit = window.gap, window.limit
        else:
            self._size, self._slide = window.size, window.slide
        self._types: list[str] = []
        self._dropped: Ints = np.empty(0, np.int64)
        """How many events of each key were dropped; -1 if it has none."""
        self._deadlines: Ints = np.empty(0, np.int64)
        """When the open session of each key ends."""
        self._stayed = 0
        """How many old events could not be dropped the last time."""
        self._out = Standing()

    @property
    def next_due(self) -> int:
        return int(self._deadlines.min()) if len(self._deadlines) else END

    # Handling events

    def _numbers_of(self, events: Slice) -> list[Ints]:
        known = {name: code for code, name in enumerate(self._types)}
        codes = [known.setdefault(name, len(known)) for name in events.batch.types]
        self._types = [*known]
        zeros = np.zeros(len(events), np.int64)
        types = np.array(codes, np.int64)[events.batch.codes]
        return [*super()._numbers_of(events), types, zeros, zeros]

    def handle(self, events: Slice, moment: Moment) -> Iterator[Told]:
        if self._mixed:
            events = events.sorted()
        self._setting.counts.handled += len(events)
        before, last = self._passed, int(events.ts[-1]) if len(events) else -1
        self._know_keys()
        late = self._late(events)
        self._take_in(events)
        self._passed = max(before, moment.time, last)
        codes, changed, newest = self._touched(events)
        if len(codes):
            yield from self._recut(codes, changed, newest, before, late, moment)
        self._taken_back = []

    def _know_keys(self) -> None:
        more = len(self._keys.values) - len(self._dropped)
        if more > 0:
            self._dropped = np.concatenate((self._dropped, np.full(more, -1, np.int64)))
            self._deadlines = np.concatenate((self._deadlines, np.full(more, END, np.int64)))

    def _late(self, events: Slice) -> dict[int, str]:
        """The keys whose past changes, and why."""
        why = {each.key: each.why for each in reversed(self._taken_back)}
        if len(events) and len(self._timeline):
            newest = max(self._timeline.numbers.item(TS, -1), self._passed)
            rows = np.flatnonzero(events.ts < newest)
            codes, first = np.unique(self._codes_of(events)[rows], return_index=True)
            rows = rows[first]
            about = zip(codes.tolist(), events.types(rows.tolist()), events.ts[rows], strict=True)
            why |= {code: f"late {what} at {ts}" for code, what, ts in about}
        return why

    def _touched(self, events: Slice) -> tuple[Ints, Ints, Ints]:
        """The keys to cut again, from which times on, and the arrivals that took events back."""
        count = len(self._keys.values)
        changed, newest = np.full(count, END, np.int64), np.full(count, -1, np.int64)
        touched = self._deadlines <= self._passed
        if len(events):
            codes = self._codes_of(events)
            np.minimum.at(changed, codes, events.ts)
            touched[codes] = True
        for each in self._taken_back:
            changed[each.key] = min(changed[each.key], each.ts)
            newest[each.key] = max(newest[each.key], each.at)
            touched[each.key] = True
        if self._passed == END:
            touched[self._timeline.numbers[KEY]] = True
        codes = np.flatnonzero(touched)
        return codes, changed[codes], newest[codes]

    def _recut(
        self,
        codes: Ints,
        changed: Ints,
        newest: Ints,
        passed: int,
        late: dict[int, str],
        moment: Moment,
    ) -> Iterator[Told]:
        """Cut keys again from some times on, and tell what has changed."""
        began, counts = self._setting.time(), self._setting.counts
        lowest = np.where(changed < END, changed + (self._gap > 0), END)
        runs = self._cut(codes, changed, newest, passed, lowest, moment)
        old = self._taken_out(codes, lowest)
        self._setting.outputs.unmake(old)
        made = self._results.of_runs(runs, self._keys.values)
        if not len(old):
            self._out.keep(made)
            if late:
                counts.replays += len(late)
            if len(made):
                yield made
            return
        again, was = made_again(old, made)
        replay = ColumnReplay(None, (int(changed.min()), 0, 0), moment.last, on_demand=True)
        replay.fresh, replay.gone = made.without(again), old.without(was)
        replay.why = [late.get(int(key), "late") for key in replay.gone.keys]
        self._out.keep(old.pick(was))
        self._out.keep(replay.fresh)
        replay.handled = len(runs.rows)
        counts.replays += len(late)
        counts.replayed += replay.handled
        counts.replaying += self._setting.time() - began
        yield replay

    def _taken_out(self, codes: Ints, lowest: Ints) -> Outputs:
        """The outputs of keys whose causes are at some times or later."""
        bounds = np.full(len(self._keys.values), END, np.int64)
        bounds[codes] = lowest

        def is_mine(outputs: Outputs) -> Mask:
            found: Mask = outputs.numbers[CAUSE] >= bounds[np.asarray(outputs.keys, np.int64)]
            return found

        return self._out.take_out(int(lowest.min()), is_mine)

    def _cut(
        self,
        codes: Ints,
        changed: Ints,
        newest: Ints,
        passed: int,
        lowest: Ints,
        moment: Moment,
    ) -> Runs:
        """The windows of keys that end after some times, as far as they have ended."""
        numbers = self._timeline.numbers
        ts, at, positions, starts = (numbers[row] for row in (TS, AT, POSITION, START))
        firsts, dropped = np.full(len(codes), -1, np.int64), self._dropped[codes]
        rows, offsets = gather(
            numbers[KEY], ts, positions, starts, codes, changed, dropped >= 0, len(self._dropped),
            firsts, passed, self._size, self._slide, self._gap,
        )  # fmt: skip
        firsts = np.where(firsts < 0, np.maximum(dropped, 0), firsts)
        self._dropped[codes] = np.maximum(dropped, 0)
        if self._gap:
            deadlines = np.empty_like(codes)
            windows, rows, flips = cut_gaps(
                rows, offsets, ts, at, positions, starts, changed, firsts, newest, self._gap,
                self._limit, self._passed, lowest, deadlines,
            )  # fmt: skip
            self._deadlines[codes] = deadlines
            self._note(flips)
            windows = windows[:, windows[3] >= self._reach]
            timed = np.ones(windows.shape[1], np.bool_)
            types = Coded(np.zeros(windows.shape[1], np.int64), ["time"])
        else:
            ends = self._passed == END
            windows = cut_counts(
                rows, offsets, ts, at, positions, changed, firsts, newest, self._size, self._slide,
                ends,
            )  # fmt: skip
            timed = windows[5] == 0
            last = numbers[TYPE, rows[windows[1] - 1]]
            types = Coded(np.where(timed, len(self._types), last), [*self._types, "time"])
        lows, highs, slots, causes, known, complete = windows
        if timed.any():
            when = np.maximum(self._setting.outputs.path.reaches_all(causes), known)
            when = np.where(when >= 0, np.minimum(when, moment.last), moment.last)
            known = np.where(timed, when, known)
        return Runs(rows, lows, highs, codes[slots], causes, known, complete > 0, timed, types)

    def _note(self, flips: Ints) -> None:
        """Events that are more than a session may have fail; others no longer do."""
        numbers, failures = self._timeline.numbers, self._setting.failures
        for row in flips.tolist():
            key, place = self._keys.values[numbers.item(KEY, row)], self._timeline.place(row)
            if numbers.item(START, row) >= 0:
                failures.mend(key, place, place)
                continue
            mine = (numbers[KEY] == numbers[KEY, row]) & (numbers[POSITION] == ~numbers[START, row])
            began = numbers.item(TS, int(np.flatnonzero(mine)[0]))
            what = self._types[numbers.item(TYPE, row)]
            error = too_many(began, self._limit, NO_GAP)
            failures.note(
                key, place,
                DetectorFailed(
                    f"detector {self._setting.node.name!r} failed at {what} at {place[0]}: "
                    f"{type(error).__name__}: {error}"
                ),
            )  # fmt: skip

    # Memory

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        before = min(before, self._passed + 1) if self._passed < END else before
        if before <= self._reach:
            return
        self._reach = before
        yield from self._out.forget(before)
        self._drop(before)

    def _drop(self, before: int) -> None:
        """Drop events that no window needs; if many had to stay, not each time."""
        numbers = self._timeline.numbers
        old = int(numbers[TS].searchsorted(before))
        if old < 2 * self._stayed + _FEW:
            return
        stays = needed(
            numbers[KEY], numbers[TS], numbers[POSITION], numbers[START], old, before, self._size,
            self._slide, self._gap, self._dropped,
        )  # fmt: skip
        rows = np.flatnonzero(stays)
        self._stayed = len(rows)
        self._timeline.drop(old, rows)

    # Checkpoints

    def outputs(self) -> Outputs:
        return self._out.all()

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        return self._arrivals_kept() | {
            "timeline": self._timeline.state_of(volumes),
            "types": self._types,
            "known": (self._dropped, self._deadlines),
            "out": self._out.state_of(volumes, settled, self._setting.what),
            "times": (self._passed, self._reach),
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._resume_arrivals(kept)
        keys, what = len(self._keys.values), "the keys of windows"
        self._timeline.resume(kept["timeline"], volumes, keys)
        self._types = kept["types"]
        stored.indices(self._timeline.numbers[TYPE], len(self._types), "the types of events")
        self._dropped, self._deadlines = kept["known"]
        for known in (self._dropped, self._deadlines):
            stored.array(known, np.int64, (None,), what)
            stored.require(len(known) <= keys, f"{what} are not all there")
        self._know_keys()
        self._passed, self._reach = kept["times"]
        self._out.resume(kept["out"], volumes, self._setting.what)
