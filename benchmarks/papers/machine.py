"""A machine that is as slow as the experiment needs, and streams that arrive at it live.

The papers load one core: pure buffering takes 50 to 70 % of it. Here the same match takes a small
part of a core, so the replay has to be faster than the match, or the machine slower; it is the same
thing, and with a slower machine all times stay those of the match. `Machine` is one core that is
`slowness` times as slow as this one. Its clock counts seconds of the stream: it jumps over the
pauses in which nothing has arrived, and while it works it takes `slowness` times the CPU time that
the work takes here. So a run is as loaded as a live one, without waiting for the stream, and other
work on this machine hardly shows. `Live` really waits, and measures by the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.snippet import Snippet
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.stadium import SIMULATED
from betimes.engine import Engine

SHARE = 0.6
"""The share of a core that pure buffering takes."""
BATCH = 0.1
"""The least time from batch to batch, in seconds of the stream."""
TRIAL = 20.0
"""How much of a stream is tried to find out how slow a machine must be, in seconds."""
WARM_UP = 5.0


class Machine:
    """One core, `slowness` times as slow as this one."""

    def __init__(self, slowness: float) -> None:
        self.slowness = slowness
        self.worked: list[tuple[float, float]] = []
        """From when to when it worked, in seconds of the stream."""
        self._now = 0.0
        self._since: float | None = None

    def __call__(self) -> float:
        """Seconds of the stream."""
        working = 0.0 if self._since is None else time.process_time() - self._since
        return self._now + self.slowness * working

    @contextmanager
    def working(self, due: float) -> Iterator[None]:
        """Work, from `due` on or as soon as the work before is done."""
        self._wait(due)
        began = self()
        yield
        self._stop()
        self.worked.append((began, self()))

    def _wait(self, due: float) -> None:
        self._now, self._since = max(self._now, due), time.process_time()

    def _stop(self) -> None:
        self._now, self._since = self(), None

    def load(self, seconds: float, span: float = 1.0) -> npt.NDArray[np.float64]:
        """The share of each span that it worked."""
        edges = np.arange(0.0, seconds + span, span)
        busy = np.zeros(len(edges) - 1)
        for began, ended in self.worked:
            overlap = np.minimum(edges[1:], ended) - np.maximum(edges[:-1], began)
            busy += np.maximum(overlap, 0.0)
        return busy / span


class Live(Machine):
    """The same, by the wall clock: the stream comes `slowness` times as fast, and work takes what
    it takes."""

    def __init__(self, slowness: float) -> None:
        super().__init__(slowness)
        self._began = time.perf_counter()

    def __call__(self) -> float:
        return (time.perf_counter() - self._began) * self.slowness

    def _wait(self, due: float) -> None:
        time.sleep(max(0.0, due - self()) / self.slowness)

    def _stop(self) -> None:
        pass


class Arrivals:
    """A stream as it arrives: tables with a column `arrived`, in order."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._tables = iter(tables)
        self._rest: pa.Table | None = None
        self._last = -1
        self.oldest = 0.0
        """When the first row of the last batch arrived, in seconds."""
        self._more()

    def _more(self) -> None:
        table = next(self._tables, None)
        if table is not None:
            kept = [table] if self._rest is None else [self._rest, table]
            self._rest = pa.concat_tables(kept)
            self._last = table["arrived"][-1].as_py()
        else:
            self._last = 2**62

    def until(self, second: float) -> pa.Table | None:
        """Everything that arrives up to this time; None if there is nothing left."""
        limit = round(second * 1e6)
        while self._last <= limit:
            self._more()
        if self._rest is None or not len(self._rest):
            return None
        arrived = self._rest["arrived"].to_numpy()
        count = int(np.searchsorted(arrived, limit, side="right"))
        self.oldest = float(arrived[0]) / 1e6
        batch = self._rest.slice(0, count).drop_columns(["seq", "arrived"])
        self._rest = self._rest.slice(count)
        return batch


def batches(machine: Machine, tables: Iterable[pa.Table]) -> Iterator[tuple[float, pa.Table]]:
    """Batches with the times at which they are due: all that arrived during the one before."""
    arrivals, due = Arrivals(tables), BATCH
    while (batch := arrivals.until(due)) is not None:
        yield due, batch
        due = max(due + BATCH, machine())


def tables_of(snippet: Snippet) -> Sequence[pa.Table]:
    """The arrivals of a snippet."""
    return [snippet.arrivals]


def slowness_for(snippet: Snippet, share: float = SHARE) -> float:
    """How slow a machine must be for pure buffering to take this share of it."""
    seconds = min(TRIAL, snippet.seconds)
    # Loads what is compiled, also what only speculation needs.
    _cost(snippet, min(WARM_UP, seconds), attenuation=0)
    return share / min(_cost(snippet, seconds, attenuation=1) for _ in range(3))


def _cost(snippet: Snippet, seconds: float, attenuation: float) -> float:
    """The share of this core that the beginning of a snippet takes."""
    machine = Machine(1.0)
    engine = Engine(soccer(SIMULATED), attenuation=attenuation, time=machine)
    for due, batch in batches(machine, tables_of(snippet)):
        if due > seconds:
            break
        with machine.working(due):
            engine.feed(batch)
    return float(np.mean(machine.load(seconds)))
