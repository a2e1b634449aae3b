"""The arrays around the compiled loop: its state, its buffer, its room to work in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from betimes.ordering import kernel
from betimes.ordering.slack import POLICIES, SlackPolicy

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_ROOM = 64
NOTHING: Ints = np.empty((4, 0), np.int64)
NOBODY: Ints = np.empty(0, np.int64)


class Step(NamedTuple):
    """What one run of the loop gave; events as columns (ts, row, code, place)."""

    replayed: Ints
    released: Ints
    settled: Ints
    path: Ints
    late: Ints
    rejected: Ints


class Loop:
    """State and buffer of one ordering unit, in the form that the compiled loop wants."""

    def __init__(self, policy: SlackPolicy, max_skew: int) -> None:
        self.policy = policy
        self.state = state = np.zeros(kernel.N_STATE, np.int64)
        self.floats = floats = np.zeros(kernel.N_FLOATS)
        state[kernel.POLICY] = POLICIES.index(policy.name)
        state[kernel.MIN_SLACK], state[kernel.MAX_SLACK] = policy.min, policy.max
        state[kernel.SLACK] = policy.min
        state[kernel.MAX_SKEW], state[kernel.WINDOW] = max_skew, policy.window
        floats[kernel.MARGIN], floats[kernel.ATTENUATION] = policy.margin, 1.0
        floats[kernel.DECAY], floats[kernel.MAX_LATE] = policy.decay, policy.max_late
        for field in (
            kernel.NOW, kernel.PASSED, kernel.PASSED_TOP,
            kernel.FRONTIER, kernel.SETTLED_TO, kernel.SETTLED_TOP,
        ):  # fmt: skip
            state[field] = kernel.NEVER
        state[kernel.OLDEST_WAITING] = state[kernel.OLDEST_NOTICE] = kernel.FAR
        self._quantile = policy.name == "quantile"
        self.window = np.zeros((2, policy.window if self._quantile else 1), np.int64)
        self.waiting = np.empty(_ROOM, np.int64)
        self._buffer = np.empty((3, _ROOM), np.int64)
        self._out = np.empty((3, 4, _ROOM), np.int64)
        self._links = np.empty((2, _ROOM), np.int64)
        self._work = np.empty((7, _ROOM), np.int64)
        self._side = np.empty((2, _ROOM + kernel.CONFIRM), np.int64)

    def run(
        self, roles: Ints, offsets: Ints, ts: Ints, codes: Codes, heads: Ints, order: Ints
    ) -> Step:
        """Feed a batch of any size; `order` lists the buffered ones sorted by (ts, arrival)."""
        n = len(ts)
        self._reserve(n)
        out, side = self._out, self._side
        replayed, released, settled = kernel.feed(
            self.state, self.floats, roles, offsets, self.waiting, self.window, self._buffer,
            ts, codes, heads, order, self._work, self._links, side, out,
        )  # fmt: skip
        handed = out[1, :, :released].copy() if released else NOTHING
        rejected, late = side[:, 0].tolist()
        return Step(
            out[0, :, :replayed].copy() if replayed else NOTHING,
            handed,
            handed if settled < 0 else out[2, :, :settled].copy() if settled else NOTHING,
            self._work[:2, :n].copy(),
            side[1, 1 : 1 + late].copy() if late else NOBODY,
            side[0, 1 : 1 + rejected].copy() if rejected else NOBODY,
        )

    def drain(self) -> Step:
        """Hand out and settle all that is held."""
        state = self.state
        rest = np.empty((4, state[kernel.SIZE]), np.int64)
        rest[:3] = self.held
        rest[kernel.AT] = state[kernel.ARRIVALS]
        released = rest[:, state[kernel.RELEASED] :]
        state[kernel.N_RELEASED] += released.shape[1]
        state[kernel.N_SETTLED] += rest.shape[1]
        state[kernel.SIZE] = state[kernel.RELEASED] = 0
        return Step(NOTHING, released, rest, NOTHING[:2], NOBODY, NOBODY)

    @property
    def held(self) -> Ints:
        """The buffer: columns ts, row, code, in order."""
        first = self.state[kernel.HEAD]
        return self._buffer[:, first : first + self.state[kernel.SIZE]]

    def learn_from(self, other: Loop) -> None:
        """Take over what another loop has learned about clock and delays, not its buffer."""
        self.state[kernel.LEARNED] = other.state[kernel.LEARNED]
        self.floats[kernel.LEARNED_FLOATS] = other.floats[kernel.LEARNED_FLOATS]
        self.window = other.window.copy()
        self.waiting = other.waiting.copy()

    def _reserve(self, n: int) -> None:
        """Make room for n more events."""
        state = self.state
        first, size = int(state[kernel.HEAD]), int(state[kernel.SIZE])
        need = size + n
        if first + need > self._buffer.shape[1]:
            # Twice what is needed, so that moving to the front is rare.
            moved = np.empty((3, max(self._buffer.shape[1], 2 * need)), np.int64)
            moved[:, :size] = self.held
            self._buffer = moved
            state[kernel.HEAD] = 0
        if need > self._out.shape[2]:
            self._out = np.empty((3, 4, 2 * need), np.int64)
            self._links = np.empty((2, 2 * need if self._quantile else 1), np.int64)
        if n > self._work.shape[1]:
            self._work = np.empty((7, n), np.int64)
            self._side = np.empty((2, n + kernel.CONFIRM), np.int64)
        if self.policy.margin > 0:
            waiting = int(state[kernel.WAITING]) + n
            if waiting > len(self.waiting):
                self.waiting = np.append(self.waiting, np.empty(waiting, np.int64))
