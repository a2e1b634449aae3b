"""Sources one of which is held up for a while: the stream of the thesis on windows, section 7.1.

Events occur one after the other, at a fixed interval, each at a random source; a source has one
type of events. For some time, the events of one source are delayed. The delay begins at zero and
grows in steps, and ends at once. A source stays first in, first out: what comes after a delayed
event waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from betimes.model.duration import Duration, microseconds
from betimes.model.errors import OptionError
from betimes.model.hints import known_options

_MOST = 26
"""Sources are called A to Z."""


@dataclass(frozen=True)
class HoldUp:
    """How events of a source are delayed, in microseconds."""

    source: str
    start: int
    duration: int
    increment: int
    every: int

    def delays(self, ts: np.ndarray) -> np.ndarray:
        """The delays of events of the source."""
        steps = (ts - self.start) // self.every
        held = (ts >= self.start) & (ts < self.start + self.duration)
        delays: np.ndarray = np.where(held, steps * self.increment, 0)
        return delays


@known_options
def source_stream(
    events: int = 1_000_000,
    *,
    sources: int = 3,
    interval: Duration = "10us",
    delayed: str | None = "C",
    start: Duration = "100ms",
    duration: Duration = "900ms",
    increment: Duration = "30us",
    every: Duration = "50ms",
    seed: int = 1,
) -> pa.Table:
    """The stream in order of arrival: `ts`, `type`, `number` at its source, `arrived`, `seq`.

    By default it is the stream of the thesis: a million events of three sources, 100,000 per
    second; those of C are delayed from 100 ms to 1 s, every 50 ms by another 30 us. `delayed=None`
    delays nothing.

    >>> table = source_stream(
    ...     6,
    ...     sources=2,
    ...     interval="1ms",
    ...     delayed="B",
    ...     start="5ms",
    ...     duration="2ms",
    ...     increment="3ms",
    ...     every="1ms",
    ...     seed=3,
    ... )
    >>> table.select(["ts", "type", "arrived"]).to_pylist()[-1]
    {'ts': 6000, 'type': 'B', 'arrived': 9000}
    """
    if not 1 <= sources <= _MOST:
        raise OptionError(f"expected sources to be from 1 to {_MOST}, got sources={sources}")
    if events < 1:
        raise OptionError(f"expected events to be 1 or more, got events={events}")
    names = [chr(ord("A") + n) for n in range(sources)]
    step, unit = microseconds(interval, "interval"), microseconds(every, "every")
    for name, value in (("interval", step), ("every", unit)):
        if value < 1:
            raise OptionError(f"expected {name} to be 1 us or more, got {name}={value}")
    if delayed is not None and delayed not in names:
        raise OptionError(f"expected delayed to be one of {', '.join(names)}, got {delayed!r}")
    ts = step * np.arange(1, events + 1, dtype=np.int64)
    codes = np.random.default_rng(seed).integers(0, sources, events).astype(np.int32)
    arrived, numbers = ts.copy(), np.empty(events, np.int64)
    for code, name in enumerate(names):
        mine = np.flatnonzero(codes == code)
        numbers[mine] = np.arange(len(mine))
        if name == delayed:
            held = HoldUp(
                name, microseconds(start, "start"), microseconds(duration, "duration"),
                microseconds(increment, "increment"), unit,
            )  # fmt: skip
            arrived[mine] = np.maximum.accumulate(ts[mine] + held.delays(ts[mine]))
    order = np.argsort(arrived, kind="stable")
    types = pa.DictionaryArray.from_arrays(codes[order], pa.array(names, pa.string()))
    columns: dict[str, pa.Array[Any]] = {
        "ts": pa.array(ts[order]),
        "type": types.cast(pa.string()),
        "number": pa.array(numbers[order]),
        "arrived": pa.array(arrived[order]),
        "seq": pa.array(np.arange(events)),
    }
    return pa.table(columns)
