"""The arrays that the compiled loop works on: its state and its buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.ordering import kernel
from betimes.ordering.slack import POLICIES, SlackPolicy
from betimes.ordering.sources import Clocks, Origin
from betimes.ordering.step import NO_STILLNESS, NOBODY, NOTHING, Step, Stillness
from betimes.ordering.stored import check_unit
from betimes.ordering.workspace import Workspace

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_ROOM = 64
_CHUNK = 8192
"""Large batches at attenuation 1 run in pieces of this size, whose columns fit the CPU cache."""

_LONG = 4096
"""Shorter columns are copied faster than lent."""


class Loop:
    """The state and the buffer of one ordering unit, in the form that the compiled loop takes.

    It has one attribute for each array that the loop works on.
    """

    def __init__(
        self,
        policy: SlackPolicy,
        max_skew: int,
        workspace: Workspace,
        start: int = 0,
        *,
        quiet: int | None = None,
    ) -> None:
        """With `quiet`, each source has its own clock until it has been quiet for this long."""
        self.policy = policy
        self._start, self._quiet = start, quiet
        self._rows = np.zeros((1, kernel.N_STATE), np.int64)
        """What learns is laid out as for several sources, with one row."""
        self._row_floats = np.zeros((1, kernel.N_FLOATS))
        state: Ints = self._rows[0]
        floats: Floats = self._row_floats[0]
        self.state, self.floats = state, floats
        state[kernel.POLICY] = POLICIES.index(policy.name)
        state[kernel.MIN_SLACK], state[kernel.MAX_SLACK] = policy.min, policy.max
        state[kernel.SLACK] = known = min(max(start, policy.min), policy.max)
        state[kernel.MAX_SKEW], state[kernel.WINDOW] = max_skew, policy.window
        floats[kernel.MARGIN], floats[kernel.ATTENUATION] = policy.margin, 1.0
        floats[kernel.DECAY], floats[kernel.MAX_LATE] = policy.decay or 0, policy.max_late
        # To each policy, `start` is what it would have learned from one delay of that length.
        floats[kernel.BASE] = start
        state[kernel.FLOOR], state[kernel.FLOOR_LEFT] = start, policy.window if start else 0
        for field in (
            kernel.NOW, kernel.PASSED, kernel.PASSED_TOP,
            kernel.FRONTIER, kernel.SETTLED_TO, kernel.SETTLED_TOP,
        ):  # fmt: skip
            state[field] = kernel.NEVER
        state[kernel.OLDEST_WAITING] = state[kernel.OLDEST_NOTICE] = kernel.FAR
        self.compares = policy.name == "quantile"
        """Whether events are compared with those that arrived before them."""
        self._learns_at_delays = policy.name == "largest" and not policy.margin
        self._windows = np.zeros((1, kernel.BUCKETS if self.compares else 1), np.int64)
        self.window = self._windows[0]
        state[kernel.GAIN] = 1 << kernel.GAIN_BITS
        floats[kernel.ALLOWANCE] = kernel.FIRST_ALLOWANCE
        self._waiting = np.empty((_ROOM, 1), np.int64)
        self._buffer = np.empty((3, _ROOM), np.int64)
        self._end = 0
        self.suspects = 0
        self.clock, self.slack = kernel.NEVER, known
        self.workspace = workspace
        workspace.fit(_ROOM, _ROOM, linked=self.compares)
        self._room = self._width = _ROOM
        """How many events fit into the buffer, and how many a batch may have."""
        self._spreads = policy.margin > 0
        """Whether the loop keeps every delay."""
        self.clocks = None if quiet is None else Clocks(quiet, state, floats, self.window)

    def anew(self) -> Loop:
        """A loop like this one that has seen nothing; they take turns."""
        skew = self.state.item(kernel.MAX_SKEW)
        return Loop(self.policy, skew, self.workspace, self._start, quiet=self._quiet)

    @property
    def attenuation(self) -> float:
        """The share of the slack to wait."""
        return self.floats.item(kernel.ATTENUATION)

    @attenuation.setter
    def attenuation(self, value: float) -> None:
        before, self.floats[kernel.ATTENUATION] = self.attenuation, value
        if value < 1.0:
            self.state[kernel.LOOK] = kernel.FAR
        elif before < 1.0:
            kernel.look(self.state)

    @property
    def next_look(self) -> int:
        """After how many more arrivals it looks whether speculation is over."""
        left: int = self.state.item(kernel.LOOK) - self.state.item(kernel.ARRIVALS)
        return left if left > 0 else kernel.FAR

    def run(
        self,
        types: Ints,
        ts: Ints,
        codes: Codes,
        heads: Ints | None = None,
        origin: Origin | None = None,
    ) -> Step:
        """Feed a batch of any size; `types` is the table of roles, offsets and counts per type.

        `heads` are the head starts of the events, if they have any; `origin` says where they come
        from, if each source has its own clock.
        """
        n = len(ts)
        if n == 0:  # Without arrivals nothing happens, even if the attenuation was lowered.
            return Step(NOTHING, NOTHING, NOTHING, NOBODY, NOBODY, NOBODY, NOBODY)
        if heads is None:
            heads = self.workspace.no_heads(n)
        if self.clocks is not None and origin is not None:
            most = n if self._spreads else 0
            self.clocks.make_room(int(origin.sources.max()), most, types.shape[1])
        if n > _CHUNK and not self.state.item(kernel.LOOK):
            return self._run_in_chunks(types, ts, codes, heads, origin)
        released, replayed, settled, rejected, late = self._feed(types, ts, codes, heads, origin)
        out, work = self.workspace.out, self.workspace.work
        handed = out[0, :, :released].copy() if released else NOTHING
        if settled < 0:
            given_up = handed = _by_hand_out(handed) if late else handed
        else:
            given_up = out[2, :, :settled].copy() if settled else NOTHING
        path = (self.clock, self.slack) if n == 1 else tuple(work[:2, :n].copy())
        return Step(
            handed,
            out[1, :, :replayed].copy() if replayed else NOTHING,
            given_up,
            path[0],
            path[1],
            work[kernel.SIDE + 1, 1 : 1 + late].copy() if late else NOBODY,
            work[kernel.SIDE, 1 : 1 + rejected].copy() if rejected else NOBODY,
            not (replayed or late),
            not (rejected or self.suspects),
        )

    def _run_in_chunks(
        self, types: Ints, ts: Ints, codes: Codes, heads: Ints, origin: Origin | None
    ) -> Step:
        n, space = len(ts), self.workspace
        path = np.empty((2, n), np.int64)
        events, done = np.empty((4, self.state.item(kernel.SIZE) + n), np.int64), 0
        late, rejected = [NOBODY], [NOBODY]
        for low in range(0, n, _CHUNK):
            part = slice(low, min(n, low + _CHUNK))
            mine = None if origin is None else origin.part(part)
            released, _, _, n_rejected, n_late = self._feed(
                types, ts[part], codes[part], heads[part], mine
            )
            events[:, done : done + released] = space.out[0, :, :released]
            done += released
            path[:, part] = space.work[:2, : part.stop - low]
            late.append(space.work[kernel.SIDE + 1, 1 : 1 + n_late].copy())
            rejected.append(space.work[kernel.SIDE, 1 : 1 + n_rejected].copy())
        rows, events = np.concatenate(late), events[:, :done]
        if len(rows):
            events = _by_hand_out(events)
        return Step(events, NOTHING, events, path[0], path[1], rows, np.concatenate(rejected))

    def _feed(
        self, types: Ints, ts: Ints, codes: Codes, heads: Ints, origin: Origin | None
    ) -> tuple[int, int, int, int, int]:  # fmt: skip
        n = len(ts)
        order = NOBODY if n <= kernel.FEW else _sorted(types, ts, codes)
        more = n if n <= kernel.FEW else len(order)
        if self._end + more > self._room or n > self._width or self._spreads:
            self._make_room(more, n)
        if self.clocks is not None and origin is not None:
            return self._feed_sources(self.clocks, types, ts, codes, heads, origin, order)
        space = self.workspace
        a, b, c, d, e, self.suspects, self._end, self.clock, self.slack = kernel.feed(
            self._rows, self._row_floats, types, self._waiting, self._windows, self._buffer,
            ts, codes, heads, order, space.work, space.out,
        )  # fmt: skip
        return a, b, c, d, e

    def _feed_sources(
        self, clocks: Clocks, types: Ints, ts: Ints, codes: Codes, heads: Ints,
        origin: Origin, order: Ints,
    ) -> tuple[int, int, int, int, int]:  # fmt: skip
        space = self.workspace
        a, b, c, d, e, self.suspects, self._end, self.clock, self.slack = kernel.feed_sources(
            self.state, self.floats, types, self._buffer, clocks.rows, clocks.floats,
            clocks.windows, clocks.waiting, clocks.marks, clocks.common, clocks.leaves,
            clocks.pending, ts, codes, heads, origin.sources.view(np.uint64), origin.certain, order,
            space.work, space.out,
        )  # fmt: skip
        return a, b, c, d, e

    @property
    def suspect_rows(self) -> list[int]:
        """The arrival numbers of clock events that are not judged yet."""
        if self.clocks is not None:
            return self.clocks.suspects()
        rows: list[int] = self.state[kernel.SUSPECT_1 :][: self.state[kernel.SUSPECTS]].tolist()
        return rows

    def stillness(self) -> Stillness:
        """For how long arrivals only wait.

        Later, a clock event may be in doubt, measure a delay for which the slack has to grow, or
        release an event. Other policies change the slack as time passes.
        """
        item, attenuation = self.state.item, self.attenuation
        held, released = item(kernel.SIZE), item(kernel.RELEASED)
        leaving = attenuation >= 1.0 and item(kernel.LOOK)
        if not self._learns_at_delays or self.suspects or leaving:
            return NO_STILLNESS
        hold, oldest = kernel.holding_time(attenuation, self.slack), item(kernel.OLDEST_WAITING)
        until = self.clock + item(kernel.MAX_SKEW)
        if self.slack < item(kernel.MAX_SLACK):
            until = min(until, oldest + self.slack)
        if held > released:
            first = self._buffer.item(kernel.TS, item(kernel.HEAD) + released)
            until = min(until, first + hold - 1)
        return Stillness(until, hold, item(kernel.FRONTIER))

    def drain(self) -> Step:
        """Hand out and settle everything in the buffer."""
        state = self.state
        rest = np.empty((4, state[kernel.SIZE]), np.int64)
        rest[:3] = self.held
        rest[kernel.AT] = state[kernel.ARRIVALS]
        released = rest[:, state[kernel.RELEASED] :]
        state[kernel.N_RELEASED] += released.shape[1]
        state[kernel.N_SETTLED] += rest.shape[1]
        state[kernel.HEAD] = state[kernel.SIZE] = state[kernel.RELEASED] = self._end = 0
        return Step(released, NOTHING, rest, NOBODY, NOBODY, NOBODY, NOBODY)

    @property
    def held(self) -> Ints:
        """The buffered events in order, as columns (ts, row, code)."""
        first = self.state[kernel.HEAD]
        return self._buffer[:, first : first + self.state[kernel.SIZE]]

    def state_of(self) -> dict[str, Any]:
        """Everything that `resume` needs."""
        return {
            "state": self.state.copy(),
            "floats": self.floats.copy(),
            "window": self.window.copy(),
            "waiting": self._waiting[: self.state[kernel.WAITING], 0].copy(),
            "held": self.held.copy(),
            "clocks": None if self.clocks is None else self.clocks.state_of(),
        }

    def resume(self, unit: dict[str, Any]) -> None:
        """Resume from what `state_of` returned, as part of the stored state of a unit."""
        check_unit(unit, self)
        kept = unit["loop"]
        held = kept["held"]
        self.state[:] = kept["state"]
        self.state[kernel.HEAD] = self.state[kernel.SIZE] = self._end = 0
        self.floats[:] = kept["floats"]
        self.window[:] = kept["window"]
        self._waiting = _with_room(kept["waiting"][:, np.newaxis], _ROOM)
        self._make_room(held.shape[1], held.shape[1])
        self._buffer[:, : held.shape[1]] = held
        self.state[kernel.SIZE] = self._end = held.shape[1]
        self.suspects = int(self.state[kernel.SUSPECTS])
        if self.clocks is not None:
            self.clocks.resume(kept["clocks"])
        self.clock, self.slack = int(self.state[kernel.NOW]), int(self.state[kernel.SLACK])

    def discard(self, rows: Sequence[int]) -> None:
        """Remove rows from the buffer."""
        held = self.held
        stay = ~np.isin(held[kernel.ROW], rows)
        released = int(self.state[kernel.RELEASED])
        self.state[kernel.RELEASED] = np.count_nonzero(stay[:released])
        kept = held[:, stay]
        first = int(self.state[kernel.HEAD])
        self._buffer[:, first : first + kept.shape[1]] = kept
        self.state[kernel.SIZE] = kept.shape[1]
        self._end = first + kept.shape[1]

    def restart(self) -> Ints:
        """Forget a clock that was wrong from the start; settle and return what it released."""
        state = self.state
        for field in (
            kernel.NOW, kernel.PASSED, kernel.PASSED_TOP,
            kernel.FRONTIER, kernel.SETTLED_TO, kernel.SETTLED_TOP,
        ):  # fmt: skip
            state[field] = kernel.NEVER
        state[kernel.OLDEST_WAITING] = state[kernel.OLDEST_NOTICE] = kernel.FAR
        state[kernel.WAITING] = state[kernel.UPDATES] = 0
        self.clock = kernel.NEVER
        if self.clocks is not None:
            self.clocks.restart()
        count = int(state[kernel.RELEASED])
        settled = np.full((4, count), state[kernel.ARRIVALS] - 1)
        settled[:3] = self.held[:, :count]
        state[kernel.HEAD] += count
        state[kernel.SIZE] -= count
        state[kernel.RELEASED] = 0
        state[kernel.N_SETTLED] += count
        return settled

    def learn_from(self, other: Loop) -> None:
        """Copy what another loop has learned about clock and delays, but not its buffer."""
        self.state[kernel.LEARNED] = other.state[kernel.LEARNED]
        self.floats[kernel.LEARNED_FLOATS] = other.floats[kernel.LEARNED_FLOATS]
        self.window[:] = other.window
        self._waiting = other._waiting.copy()
        self.clock, self.slack = other.clock, other.slack
        if self.clocks is not None and other.clocks is not None:
            self.clocks.learn_from(other.clocks)
        # Whatever the new clock says, the frontier has passed what is settled.
        for passed, settled in (
            (kernel.PASSED, kernel.SETTLED_TO), (kernel.PASSED_TOP, kernel.SETTLED_TOP)
        ):  # fmt: skip
            self.state[passed] = max(self.state[passed], self.state[settled])

    def _make_room(self, more: int, n: int) -> None:
        """Make room for n arrivals, of which `more` are buffered: twice the space needed.

        So this stays rare. New memory takes long to touch, so there is no more than that.
        """
        if self._end + more > self._buffer.shape[1]:
            held = self.held
            size = held.shape[1]
            if 2 * (size + more) > self._buffer.shape[1]:
                room = 2 * (size + more)
                self._buffer = np.empty((3, room), np.int64)
                self._room = room
            self._buffer[:, :size] = held
            self.state[kernel.HEAD] = 0
            self._end = size
        self._width = max(self._width, n)
        self.workspace.fit(self._room, self._width, linked=self.compares)
        if self._spreads:
            waiting = int(self.state[kernel.WAITING]) + n
            if waiting > len(self._waiting):
                self._waiting = _with_room(self._waiting, waiting)


def _sorted(types: Ints, ts: Ints, codes: Codes) -> Ints:
    """The indices of the events to be buffered, sorted by (ts, arrival)."""
    buffered = (types[kernel.ROLE] & kernel.BUFFERED).astype(bool)
    others = (~buffered).nonzero()[0]
    if not len(others):
        return ts.argsort(kind="stable")
    # To compare codes is so much faster than to look them up that it pays in the common case.
    mine: Ints
    mine = (codes != others[0] if len(others) == 1 else buffered.take(codes)).nonzero()[0]
    return mine.take(ts.take(mine).argsort(kind="stable")) if len(mine) > 1 else mine


def _with_room(column: Ints, more: int) -> Ints:
    """The column of a table with one, with room for more at its end."""
    return np.concatenate((column, np.empty((more, 1), np.int64)))


class _Lent:
    """A read-only column, as one that could be written to."""

    def __init__(self, column: npt.NDArray[Any]) -> None:
        self.column = column
        address = column.__array_interface__["data"][0]
        self.__array_interface__ = column.__array_interface__ | {"data": (address, False)}


def plain(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The column as compiled loops need it, which never write to what comes in.

    Columns of an Arrow table are read-only. A loop that took these, too, would be compiled twice,
    and to copy a long one costs more than to sort it out.
    """
    flags = column.flags
    if flags.carray:
        return column
    if len(column) < _LONG or not (flags.c_contiguous and flags.aligned):
        return column.copy()
    return np.asarray(_Lent(column))


def _by_hand_out(events: Ints) -> Ints:
    """Sort events by hand-out; only late events make this differ from the order of time."""
    return events[:, np.argsort(events[kernel.AT], kind="stable")]
