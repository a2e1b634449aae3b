"""The runs of a compiled pattern: growing arrays for the compiled loop, cleaned up now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.stages.columns.history import ColumnSegment
from betimes.engine.stages.columns.waiting import Promised
from betimes.model.volumes import Ranges, VolumeReader, VolumeWriter
from betimes.patterns import PatternError, kernel
from betimes.patterns.compiled import Program

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ROOM = 1024
_BLOCK = 4096
"""So many runs or bindings are one item of a checkpoint."""
_WHAT = "the partial matches of a pattern"
EVERYBODY: Flags = np.empty(0, np.bool_)
NOBODY: Ints = np.empty(0, np.int64)


class PartialMatches:
    """Partial matches by key, for the compiled loop."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self._name = name
        self.heads = np.full(_ROOM, -1, np.int64)
        self._stamps = np.full(_ROOM, -1, np.int64)
        self._newest = np.full(_ROOM, -1, np.int64)
        self._runs = np.empty((kernel.N_RUN, _ROOM), np.int64)
        self._bindings = np.empty((kernel.N_BOUND, _ROOM), np.int64)
        self._values = np.empty((len(program.columns), _ROOM))
        self._matches = np.empty((kernel.EVENTS + len(program.steps), _ROOM), np.int64)
        self._undo = np.empty((2, _ROOM), np.int64)
        self._counts = np.zeros(kernel.N_COUNT, np.int64)
        self._kept = 0
        """How many runs were left after the last clean-up."""
        # Until then, nothing in them changes.
        self._old_runs, self._old_bindings = Ranges(_BLOCK), Ranges(_BLOCK)

    def know(self, keys: int) -> None:
        """Make room for this many keys."""
        if keys > len(self.heads):
            more = max(keys, 2 * len(self.heads)) - len(self.heads)
            nobody = np.full(more, -1, np.int64)
            self.heads = np.concatenate((self.heads, nobody))
            self._stamps = np.concatenate((self._stamps, nobody))
            self._newest = np.concatenate((self._newest, nobody))

    def handle(
        self,
        events: Ints,
        own: Floats,
        stamp: int,
        todo: Flags = EVERYBODY,
        *,
        since: int = 0,
        end: int | None = None,
    ) -> tuple[Ints, Ints]:
        """Handle events of some keys or of all; return the matches and the undo log.

        The log has the states of keys that were touched for the first time under this stamp. It is
        good until the next call.
        """
        program = self.program
        last = events.shape[1] if end is None else end

        def step() -> int:
            return kernel.run(
                events, own, last, todo, program.config, program.take_at, program.kill_at,
                program.programs, program.constants, self.heads, self._stamps, self._newest, stamp,
                self._runs, self._bindings, self._values, self._undo, self._matches, self._counts,
            )  # fmt: skip

        return self._all(step, since)

    def hand_over(self, handed: Promised, segment: ColumnSegment) -> tuple[Ints, Ints]:
        """Move events from where they wait to the end of a segment, and handle them there."""
        program, low = self.program, segment.size
        events, own = segment.make_room(len(handed))
        segment.size += len(handed)

        moved = False

        def step() -> int:
            nonlocal moved
            # The second time, there was no room for partial matches, but the events are there.
            rows, moved = NOBODY if moved else handed.rows, True
            return kernel.hand_over(
                *handed.room.arrays(), rows, handed.at, segment.size, events, own, low,
                EVERYBODY, program.config, program.take_at, program.kill_at, program.programs,
                program.constants, self.heads, self._stamps, self._newest, segment.stamp,
                self._runs, self._bindings, self._values, self._undo, self._matches, self._counts,
            )  # fmt: skip

        return self._all(step, low)

    def pass_time(self, keys: Ints, ts: int, stamp: int) -> tuple[Ints, Ints]:
        """Let time pass up to `ts` for these keys."""

        def step() -> int:
            return kernel.pass_time(
                keys, ts, self.program.config, self.heads, self._stamps, self._newest, stamp,
                self._runs, self._bindings, self._undo, self._matches, self._counts,
            )  # fmt: skip

        return self._all(step, 0)

    def _all(self, step: Callable[[], int], since: int) -> tuple[Ints, Ints]:
        counts = self._counts
        counts[kernel.MATCHES : kernel.NOW + 1] = 0
        counts[kernel.NOW] = since
        while (answer := step()) != kernel.DONE:
            if answer == kernel.TOO_MANY:
                limit = self.program.config[kernel.LIMIT]
                raise PatternError(
                    f"pattern {self._name!r} has more than {limit:,} partial matches of one key; "
                    "bound it with within=, or raise limit="
                )
            self._grow()
        matches = self._matches[:, : counts[kernel.MATCHES]].copy()
        return matches, self._undo[:, : counts[kernel.UNDONE]]

    def _grow(self) -> None:
        """Make the room that the loop asks for, and some spare room."""
        counts, need = self._counts, int(self._counts[kernel.NEED])
        self._runs = _larger(self._runs, int(counts[kernel.RUNS]), need)
        self._bindings = _larger(self._bindings, int(counts[kernel.BINDINGS]), need)
        self._values = _larger(self._values, int(counts[kernel.BINDINGS]), need)
        self._matches = _larger(self._matches, int(counts[kernel.MATCHES]), need)
        self._undo = _larger(self._undo, int(counts[kernel.UNDONE]), need)

    def go_back(self, undo: Ints, todo: Flags, found: Flags) -> Ints:
        """Set keys back to an undo log's states, unless they are `found`; return the rest of it.

        Keys that were in the log are then marked as found.
        """
        undo = undo.copy()
        kept = kernel.go_back(undo, todo, found, self.heads)
        return undo[:, :kept]

    def disturb(self, keys: Ints, at: Ints) -> None:
        """The past of these keys has changed, with these arrivals."""
        self._stamps[keys] = -1
        np.maximum.at(self._newest, keys, at)

    @property
    def crowded(self) -> bool:
        """Whether there are many more runs than after the last clean-up."""
        return bool(self._counts[kernel.RUNS] > 2 * self._kept + 16 * _ROOM)

    def clean_up(self, logs: list[Ints]) -> Ints:
        """Drop runs that are neither open nor in one of the logs; return the events still bound."""
        roots = np.concatenate([self.heads, *(log[1] for log in logs)])
        moved, bound = kernel.compact(roots, self._runs, self._bindings, self._values, self._counts)
        for heads in (self.heads, *(log[1] for log in logs)):
            open_ = heads >= 0
            heads[open_] = moved[heads[open_]]
        self._kept = int(self._counts[kernel.RUNS])
        self._old_runs.clear()
        self._old_bindings.clear()
        events: Ints = bound
        return events

    def state_of(self, volumes: VolumeWriter) -> dict[str, Any]:
        """Everything needed to resume elsewhere."""
        runs, bindings = int(self._counts[kernel.RUNS]), int(self._counts[kernel.BINDINGS])

        def bound(low: int, high: int) -> tuple[Ints, Floats]:
            return self._bindings[:, low:high].copy(), self._values[:, low:high].copy()

        return {
            "heads": self.heads,
            "stamps": self._stamps,
            "newest": self._newest,
            "runs": self._old_runs.write(
                volumes, runs, lambda low, high: self._runs[:, low:high].copy(), _WHAT
            ),
            "bindings": self._old_bindings.write(volumes, bindings, bound, _WHAT),
        }

    def read(self, kept: dict[str, Any], volumes: VolumeReader) -> dict[str, Any]:
        """The arrays that `state_of` kept, which nobody has checked."""
        runs = [self._runs[:, :0], *self._old_runs.read(volumes, kept["runs"], _WHAT)]
        pairs = [*self._old_bindings.read(volumes, kept["bindings"], _WHAT)]
        bindings, values = zip((self._bindings[:, :0], self._values[:, :0]), *pairs, strict=True)
        return kept | {
            "runs": np.concatenate(runs, axis=1),
            "bindings": np.concatenate(bindings, axis=1),
            "values": np.concatenate(values, axis=1),
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from arrays that were read and checked."""
        self.heads, self._stamps, self._newest = kept["heads"], kept["stamps"], kept["newest"]
        self._counts[kernel.RUNS] = kept["runs"].shape[1]
        self._counts[kernel.BINDINGS] = kept["bindings"].shape[1]
        self._runs, self._bindings = kept["runs"], kept["bindings"]
        self._values = kept["values"]


def _larger(array: npt.NDArray[Any], used: int, need: int) -> npt.NDArray[Any]:
    if used + need <= array.shape[1]:
        return array
    grown = np.empty((array.shape[0], 2 * (used + need)), array.dtype)
    grown[:, :used] = array[:, :used]
    return grown
