"""The sources of a stream: their names, and the arrays that hold one clock for each of them.

What a source is, and what a unit makes of several clocks, is told in `kernel/sources.py`.

**Forgetting.** Names of sources may come and go for as long as the stream runs: connections,
devices, files. All sources that count are kept, and of those that do not, the `KEPT` heard last;
the others are forgotten, and their numbers are used again. A source that comes back after that is a
new one. So the partitions of a topic keep what was learned about them over any pause, and memory
follows the sources that live, not all that ever lived. Looking for sources to forget takes as long
as looking at all of them, so it is done when there are twice as many as were left the last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import EventBatch
from betimes.model.coded import Coded
from betimes.model.duration import readable
from betimes.model.errors import EventError
from betimes.model.event import OWN
from betimes.model.stored import Int, require, shaped
from betimes.ordering import kernel
from betimes.ordering.kernel.layout import HEARD

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

QUIET = "10min"
"""After this much stream time without an event, a source stops counting."""

KEPT = 4096
"""How many of the sources that do not count are remembered at most."""

_STANDINGS = {kernel.LIVING: "living", kernel.EXPECTED: "expected", kernel.QUIET: "quiet"}


class Hearer(Protocol):
    """What has clocks for sources."""

    def last_heard(self) -> Ints:
        """When each source was heard last, by number: NEVER if not at all, FAR if it counts."""

    def forget(self, numbers: Ints) -> None:
        """These numbers will stand for other sources."""


class Sources:
    """Numbers for sources, from 1, in the order in which they are first seen; 0 means none.

    >>> from betimes.model import Event
    >>> sources = Sources("partition")
    >>> sources.read(EventBatch.of([Event("A", 3, {"partition": 7})])).tolist(), sources.numbers
    ([1], {7: 1})
    """

    def __init__(self, column: str, who: str = "the ordering unit") -> None:
        self.column = column
        self._who = who
        self.numbers: dict[Any, int] = {}
        """The number of each source."""
        self._free: list[int] = []
        """Numbers of sources that were forgotten, the next one last."""
        self._most = 2 * KEPT
        """With more sources than this, some may have to be forgotten."""
        self.forgotten = 0
        """How many sources were forgotten so far."""

    def read(self, batch: EventBatch) -> Ints:
        """The number of the source of each event; an event without one is an error."""
        if not len(batch):
            return np.empty(0, np.int64)
        found = Coded.of(batch, self.column, self._who, option="source")
        for code, name in enumerate(found.values):
            if name is None or name != name:
                row = int((found.codes == code).argmax())
                raise EventError(
                    f"{self._who} has source={self.column!r}, but in {batch[row]!r} it is missing: "
                    "every event must say where it comes from; fill it in, or filter such events "
                    "out"
                )
        table = [self.numbers.get(name) or self._add(name) for name in found.values]
        return np.array(table, np.int64)[found.codes]

    def _add(self, name: Any) -> int:
        number = self._free.pop() if self._free else len(self.numbers) + 1
        self.numbers[name] = number
        return number

    @property
    def crowded(self) -> bool:
        """Whether there are so many that it is time to forget some."""
        return len(self.numbers) > self._most

    def make_way(self, hearers: Sequence[Hearer]) -> None:
        """Forget the sources not heard for long; `hearers` are all that know their numbers."""
        names, numbers = list(self.numbers), np.array(list(self.numbers.values()))
        heard = np.full(numbers.max() + 1, kernel.NEVER)
        for hearer in hearers:
            known = hearer.last_heard()[: len(heard)]
            heard[: len(known)] = np.maximum(heard[: len(known)], known)
        heard = heard[numbers]
        quiet = np.flatnonzero(heard < kernel.FAR)
        gone = quiet[np.argsort(heard[quiet], kind="stable")][: max(len(quiet) - KEPT, 0)]
        for row in gone.tolist():
            del self.numbers[names[row]]
        for hearer in hearers:
            hearer.forget(numbers[gone])
        self._free += numbers[gone][::-1].tolist()
        self.forgotten += len(gone)
        self._most = 2 * max(KEPT, len(self.numbers))

    def told_apart(self, batch: EventBatch) -> EventBatch:
        """The batch with the source of each event."""
        source, payload = self.read(batch), batch.payload
        if self.column.startswith(OWN) and isinstance(payload, pa.Table) and len(batch):
            payload = payload.drop_columns([self.column])
        return EventBatch(
            batch.ts, batch.codes, batch.types, payload, head_start=batch.head_start,
            source=source,
        )  # fmt: skip

    def known(self, names: Iterable[Any]) -> list[int]:
        """The numbers of those of these sources that have had an event."""
        return [self.numbers[name] for name in names if name in self.numbers]

    def state_of(self) -> dict[str, Any]:
        """Everything that `resume` needs."""
        numbers = self.numbers
        return {
            "names": list(numbers),
            "numbers": list(numbers.values()),
            "free": list(self._free),
            "most": self._most,
            "forgotten": self.forgotten,
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` returned."""
        numbers = [*kept["numbers"], *kept["free"]]
        require(sorted(numbers) == [*range(1, len(numbers) + 1)], "the numbers of sources are bad")
        self.numbers = dict(zip(kept["names"], kept["numbers"], strict=True))
        require(len(self.numbers) == len(kept["numbers"]), "the names of sources are bad")
        self._free = list(kept["free"])
        self._most, self.forgotten = shaped(
            [kept["most"], kept["forgotten"]], list[Int], "the count of sources"
        )


def known_slack(clock: Any, slack: Any) -> Any:
    """The slack as it is told: 0 while a source is expected whose time nobody knows."""
    return np.where(clock - slack == kernel.NOTHING_CERTAIN, 0, slack)


class Origin(NamedTuple):
    """Where the events of a batch come from."""

    sources: Ints
    """The number of the source of each event."""
    certain: Ints
    """How far the stages below were certain before each; empty if there are none."""

    def part(self, rows: slice) -> Origin:
        """That of some of the events."""
        return Origin(self.sources[rows], self.certain[rows])


class SourceStats(NamedTuple):
    """What is known about one source."""

    clock: int | None
    """The largest time seen on its clock types; None until it has a clock."""
    slack: int
    """How long its events are held back at most, by its own clock."""
    standing: str
    """`living` or `expected`: it counts; `quiet`: it has not been heard for long."""

    def __repr__(self) -> str:
        return f"SourceStats(clock={self.clock}, slack={readable(self.slack)}, {self.standing})"


class Clocks:
    """One clock and one slack per source, in the form that the compiled loop takes.

    There is room for twice as many sources as are known at most; those to come are unknown.
    """

    def __init__(self, quiet: int, state: Ints, floats: Floats, window: Ints) -> None:
        """With what a unit without sources starts with: each source starts with the same."""
        self._first = (state.copy(), floats.copy(), window.copy())
        self._first[0][kernel.DUE] = kernel.FAR
        self.rows: Ints = np.empty((0, len(state)), np.int64)
        self.floats: Floats = np.empty((0, len(floats)))
        self.windows: Ints = np.empty((0, *window.shape), np.int64)
        # By source in the second place: those that wait are few per source, so they are close by.
        self.waiting: Ints = np.empty((1, 0), np.int64)
        self.pending: Ints = np.empty((0, 0), np.int64)
        self.marks: Ints = np.empty((0, kernel.N_MARKS), np.int64)
        self.common: Ints = np.array([quiet, kernel.FAR])
        self.leaves: Ints = np.empty(0, np.int64)
        self.make_room(1, 0, 0)
        # What stages below make is dated back by nothing, until it is.
        self.rows[0, (kernel.SLACK, kernel.MIN_SLACK, kernel.FLOOR, kernel.FLOOR_LEFT)] = 0
        self.floats[0, kernel.BASE] = 0.0

    def make_room(self, last: int, arrivals: int, types: int) -> None:
        """Make room for sources up to this number, these delays, and this many types."""
        if last < len(self.rows) and types <= self.pending.shape[1] and not arrivals:
            return
        more = max(2, 1 << last.bit_length()) - len(self.rows)
        if more > 0:
            state, floats, window = self._first
            self.rows = np.concatenate((self.rows, np.tile(state, (more, 1))))
            self.floats = np.concatenate((self.floats, np.tile(floats, (more, 1))))
            self.windows = np.concatenate(
                (self.windows, np.tile(window, (more,) + (1,) * window.ndim))
            )
            self.marks = np.concatenate((self.marks, np.zeros((more, kernel.N_MARKS), np.int64)))
            self.leaves = np.empty(len(self.rows), np.int64)
            self._set_leaves()
        self.pending = _widened(self.pending, (len(self.rows), types), len(self.pending))
        used = int(self.rows[:, kernel.WAITING].max()) if arrivals else 0
        room = used + arrivals
        room = room if room <= len(self.waiting) else 2 * room
        self.waiting = _widened(self.waiting, (room, len(self.rows)), used)

    def listen_below(self) -> None:
        """Count source 0: there are stages below."""
        self.marks[0, kernel.STANDING] = kernel.EXPECTED
        self._set_leaves()

    def expect(self, numbers: Ints) -> None:
        """Count these sources, and wait for each of them to be heard."""
        self.make_room(int(numbers.max(initial=0)), 0, 0)
        self._stand(numbers[numbers > 0], kernel.EXPECTED)

    def excuse(self, numbers: list[int]) -> None:
        """Do not wait for these sources until they are heard again."""
        heard = self.marks[:, kernel.STANDING] != kernel.UNKNOWN
        self._stand(np.array([s for s in numbers if s < len(heard) and heard[s]]), kernel.QUIET)

    def last_heard(self) -> Ints:
        """When each source was heard last: NEVER if not at all, FAR if it counts or is in doubt."""
        standing = self.marks[:, kernel.STANDING]
        heard = np.where(standing == kernel.UNKNOWN, kernel.NEVER, self.rows[:, HEARD])
        counts = (standing == kernel.LIVING) | (standing == kernel.EXPECTED)
        heard[counts | (self.rows[:, kernel.SUSPECTS] > 0)] = kernel.FAR
        return heard

    def forget(self, numbers: Ints) -> None:
        """These numbers will stand for other sources, about which nothing is known."""
        numbers = numbers[numbers < len(self.rows)]
        self.rows[numbers], self.floats[numbers], self.windows[numbers] = self._first
        self.marks[numbers] = 0
        self.pending[numbers] = kernel.FAR
        self._set_leaves()

    def suspects(self) -> list[int]:
        """The arrival numbers of clock events in doubt, in order."""
        first = self.rows[:, kernel.SUSPECT_1 : kernel.SUSPECT_1 + kernel.CONFIRM - 1]
        open_ = np.arange(kernel.CONFIRM - 1) < self.rows[:, kernel.SUSPECTS, None]
        return sorted(first[open_].tolist())

    def still_open(self, names: Sequence[str]) -> dict[str, int]:
        """The delays so far, by type, of events that wait for the clocks of their sources."""
        pending, now = self.pending[:, : len(names)], self.rows[:, kernel.NOW, None]
        waits = (pending != kernel.FAR) & (now != kernel.NEVER)
        delays = np.where(waits, now - np.where(waits, pending, 0), -1).max(axis=0, initial=-1)
        return {names[code]: int(delays[code]) for code in np.flatnonzero(delays >= 0).tolist()}

    def readings(self, sources: Sources) -> dict[str, Any]:
        """What a unit reports about its sources."""
        slowest = int(self.leaves.argmin())
        waits = (name for name, number in sources.numbers.items() if number == slowest)
        return {
            "largest_delay": int(self.rows[:, kernel.TOP].max()),
            "sources": self._stats(sources),
            "sources_forgotten": sources.forgotten,
            "waits_for": next(waits, None),
        }

    def _stats(self, sources: Sources) -> dict[Any, SourceStats]:
        """What is known about each source that has been heard or is expected."""
        found = {}
        standings = self.marks[:, kernel.STANDING].tolist()
        for name, number in sources.numbers.items():
            standing = _STANDINGS.get(standings[number]) if number < len(standings) else None
            if standing is not None:
                clock, slack = self.rows[number, [kernel.NOW, kernel.SLACK]].tolist()
                known = None if clock == kernel.NEVER else clock
                found[name] = SourceStats(known, slack, standing)
        return found

    def restart(self) -> None:
        """Forget all clocks; what was learned about delays stays."""
        never = (kernel.NOW, kernel.PASSED, kernel.PASSED_TOP, kernel.FRONTIER)
        self.rows[1:, never] = kernel.NEVER
        self.rows[:, (kernel.OLDEST_WAITING, kernel.OLDEST_NOTICE, kernel.DUE)] = kernel.FAR
        self.rows[:, kernel.WAITING] = 0
        self.rows[:, (kernel.ORDINARY, kernel.ANY_PENDING)] = 0
        self.marks[1:] = 0
        self.pending[:] = kernel.FAR
        self._set_leaves()

    def learn_from(self, other: Clocks) -> None:
        """Copy what others have learned; sources that they have not heard of stay as they are."""
        self.make_room(len(other.rows) - 1, len(other.waiting), other.pending.shape[1])
        heard = np.flatnonzero(other.marks[:, kernel.STANDING] != kernel.UNKNOWN)
        self.rows[heard, kernel.LEARNED] = other.rows[heard, kernel.LEARNED]
        self.floats[heard, kernel.LEARNED_FLOATS] = other.floats[heard, kernel.LEARNED_FLOATS]
        self.windows[heard] = other.windows[heard]
        self.waiting[: len(other.waiting), heard] = other.waiting[:, heard]
        self.pending[heard, : other.pending.shape[1]] = other.pending[heard]
        self.marks[heard] = other.marks[heard]
        self.rows[:, kernel.ORDINARY] = 0
        self.common[kernel.NEXT_LOOK] = kernel.NEVER
        self._set_leaves()

    def state_of(self) -> dict[str, Any]:
        """Everything that `resume` needs."""
        names = ("rows", "floats", "windows", "pending", "marks", "common")
        used = int(self.rows[:, kernel.WAITING].max())
        kept = {name: getattr(self, name).copy() for name in names}
        return kept | {"waiting": self.waiting[: max(used, 1)].copy()}

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` returned."""
        for name, value in kept.items():
            setattr(self, name, value)
        self.leaves = np.empty(len(self.rows), np.int64)
        self._set_leaves()

    def _stand(self, numbers: Ints, standing: int) -> None:
        self.marks[numbers.astype(np.int64), kernel.STANDING] = standing
        self.rows[numbers.astype(np.int64), kernel.ORDINARY] = 0
        self._set_leaves()

    def _set_leaves(self) -> None:
        kernel.set_leaves(self.rows, self.marks, self.leaves)


def _widened(table: Ints, shape: tuple[int, int], used: int) -> Ints:
    """The table, or if it is smaller than this, a larger one with the rows of it that are used."""
    height, width = table.shape
    if height >= shape[0] and width >= shape[1]:
        return table
    wider = np.full((max(height, shape[0]), max(width, shape[1])), kernel.FAR)
    wider[:used, :width] = table[:used]
    return wider
