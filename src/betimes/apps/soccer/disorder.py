"""Puts ordered positions into the order in which a real-time locating system would deliver them.

As the papers measured in the stadium, a position is delayed between its time and its arrival by:

1. **Packets.** A sensor sends ten positions at once, when it has the tenth; it does not wait longer
   than 50 ms for missing ones. At 200 positions per second, the first of them waits 45 ms. Balls
   send their positions one by one.
2. **Jitter.** Balls have priority: less than 5 ms. Other positions are computed when there is time:
   after at least 5 ms, typically about 20 ms, at most 100 ms. With packets that makes 145 ms.
3. **Network.** Less than 1 ms in a local network, tens of milliseconds in a wide one.
4. **Bursts.** Every few seconds the receiver falls behind: only balls get through for a while, and
   then everything that has piled up arrives ten times as fast as usual.

Positions of one sensor stay in order, because they take the same path (a packet does not overtake
the one before it). Positions of different sensors do not: nearly all arrive out of order.

Every delay is determined by the seed, the sensor and the number of the packet, so it does not
matter how the stream is cut into tables. Only positions that may still be overtaken are held back:
open packets, and what arrives after the newest position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.apps.soccer.delays import LAN, LARGEST, PRESETS, Delays, delays_of
from betimes.model import EventError
from betimes.model.compiling import compiled

__all__ = ["LAN", "PRESETS", "Delays", "disordered"]

_SENSORS = 1 << 16
_STEP = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def disordered(
    tables: Iterable[pa.Table], delays: Delays | str = LAN, seed: int = 0
) -> Iterator[pa.Table]:
    """The positions in order of arrival, with `seq` and `arrived`.

    `delays`: a `Delays`, or the name of one of the `PRESETS`.
    """
    return _Arrivals(delays_of(delays), seed).run(tables)


class _Arrivals:
    """The positions in transit."""

    def __init__(self, delays: Delays, seed: int) -> None:
        self._settings = np.array([getattr(delays, field.name) for field in fields(Delays)])
        self._seed = np.uint64(seed % 2**63)
        self._state = np.zeros((_SENSORS, 5), np.int64)
        """By sensor: positions in the open packet, its number, last time, last arrival, is ball."""
        self._open = np.zeros((_SENSORS, LARGEST), np.int64)
        self._held: pa.Table | None = None
        self._arrived: Ints = np.empty(0, np.int64)
        """Of the held rows; -1 if not known yet."""
        self._rows = 0
        """Of all tables so far."""
        self._seq = 0
        self._last: int | None = None

    def run(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            if len(table):
                self._take(table)
                yield from self._release(end=False)
        if self._held is not None:
            yield from self._release(end=True)

    def _take(self, table: pa.Table) -> None:
        """Append a table to the held rows, and send packets that are full."""
        for name in ("ts", "type", "sid"):
            if name not in table.column_names:
                raise EventError(
                    f"expected a table of positions with a column {name!r}, got the columns "
                    f"{table.column_names}"
                )
        ts = table["ts"].to_numpy()
        sid = table["sid"].to_numpy().astype(np.int64)
        self._check(ts, sid)
        is_ball = np.asarray(table["type"].to_numpy(zero_copy_only=False) == "ball")
        first = self._rows - len(self._arrived)
        self._arrived = np.concatenate([self._arrived, np.full(len(ts), -1, np.int64)])
        _send(
            ts, sid, is_ball, self._rows, first, self._arrived, self._state, self._open,
            self._settings, self._seed,
        )  # fmt: skip
        self._held = table if self._held is None else pa.concat_tables([self._held, table])
        self._rows += len(ts)
        self._last = int(ts[-1])

    def _check(self, ts: Ints, sid: Ints) -> None:
        if (self._last is not None and ts[0] < self._last) or (np.diff(ts) < 0).any():
            raise EventError(
                "expected positions in order of time, got an earlier one after a later one; "
                "sort them by ts first"
            )
        if sid.min() < 0 or sid.max() >= _SENSORS:
            raise EventError(
                f"expected sensor numbers from 0 to {_SENSORS - 1}, got {sid.min()} to {sid.max()}"
            )

    def _release(self, *, end: bool) -> Iterator[pa.Table]:
        """Release what nothing can overtake any more; at the end, everything."""
        assert self._held is not None
        assert self._last is not None
        first = self._rows - len(self._arrived)
        _time_out(
            self._last, end, first, self._arrived, self._state, self._open, self._settings,
            self._seed,
        )  # fmt: skip
        known = self._arrived >= 0
        ready = known if end else known & (self._arrived < self._last)
        rows = np.flatnonzero(ready)
        if not len(rows):
            return
        rows = rows[np.argsort(self._arrived[rows], kind="stable")]
        out = self._held.take(rows)
        out = out.append_column("seq", pa.array(np.arange(self._seq, self._seq + len(rows))))
        out = out.append_column("arrived", pa.array(self._arrived[rows]))
        self._seq += len(rows)
        self._keep(~ready & (self._arrived != _GONE))
        yield out

    def _keep(self, stay: npt.NDArray[np.bool_]) -> None:
        """Drop released rows; held rows keep their numbers."""
        assert self._held is not None
        # Open packets refer to rows by number, counted from the very first row. So rows released
        # in between are only marked, and removed once everything before them is gone.
        first_kept = int(np.argmax(stay)) if stay.any() else len(stay)
        self._arrived = np.where(stay, self._arrived, _GONE)[first_kept:]
        self._held = self._held.slice(first_kept)


_GONE = -2
"""The arrival of a held row that was already released."""

_COUNT, _NUMBER, _TIME, _ARRIVAL, _BALL = range(5)
(
    _BALL_JITTER, _JITTER_LEAST, _JITTER_TYPICAL, _JITTER_MOST, _SIZE, _BALL_SIZE, _WAIT,
    _NETWORK_LEAST, _NETWORK_MOST, _BURST_EVERY, _BURST_LEAST, _BURST_MOST,
) = range(12)  # fmt: skip


@compiled
def _chance(seed: np.uint64, a: int, b: int, c: int) -> float:
    """A number from 0 to 1 determined by the seed and three numbers (splitmix64)."""
    x = seed
    for part in (a, b, c):
        x = (x ^ np.uint64(part)) + np.uint64(_STEP)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX[0])
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX[1])
        x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) / float(1 << 53)


@compiled
def _close(
    sensor: int, ready: int, first: int, arrived: Ints, state: Ints, packets: Ints, settings: Ints,
    seed: np.uint64,
) -> None:  # fmt: skip
    """Send the open packet of a sensor."""
    number, is_ball = state[sensor, _NUMBER], state[sensor, _BALL] == 1
    chance = _chance(seed, sensor, number, 0)
    if is_ball:
        jitter = settings[_BALL_JITTER] * chance
    else:
        room = settings[_JITTER_MOST] - settings[_JITTER_LEAST]
        more = -np.log(1.0 - chance) * settings[_JITTER_TYPICAL]
        # Beyond the maximum, draw again, so that values do not pile up at the maximum.
        while more > room:
            more -= room
        jitter = settings[_JITTER_LEAST] + more
    room = settings[_NETWORK_MOST] - settings[_NETWORK_LEAST]
    network = settings[_NETWORK_LEAST] + room * _chance(seed, sensor, number, 1)
    arrival = ready + int(jitter + network)
    if not is_ball:
        arrival = _after_burst(arrival, settings, seed)
    arrival = max(arrival, state[sensor, _ARRIVAL])
    for k in range(state[sensor, _COUNT]):
        arrived[packets[sensor, k] - first] = arrival
    state[sensor, _ARRIVAL] = arrival
    state[sensor, _NUMBER] = number + 1
    state[sensor, _COUNT] = 0


@compiled
def _after_burst(arrival: int, settings: Ints, seed: np.uint64) -> int:
    """When something arrives that was due while nothing gets through."""
    every = int(settings[_BURST_EVERY])
    if every == 0:
        return arrival
    period = arrival // every
    begin = period * every + int(
        _chance(seed, period, 0, 2) * (every - 2 * settings[_BURST_MOST])
    )  # fmt: skip
    room = settings[_BURST_MOST] - settings[_BURST_LEAST]
    span = int(settings[_BURST_LEAST]) + int(room * _chance(seed, period, 0, 3))
    if begin <= arrival < begin + span:
        arrival = begin + span + (arrival - begin) // 10
    return arrival


@compiled
def _send(
    ts: Ints, sid: Ints, is_ball: npt.NDArray[np.bool_], number: int, first: int, arrived: Ints,
    state: Ints, packets: Ints, settings: Ints, seed: np.uint64,
) -> None:  # fmt: skip
    """Put positions into packets, and send those that are full or have waited too long."""
    for row in range(len(ts)):
        sensor = sid[row]
        waited = ts[row] - state[sensor, _TIME] >= settings[_WAIT]
        if state[sensor, _COUNT] > 0 and waited:
            ready = state[sensor, _TIME] + settings[_WAIT]
            _close(sensor, ready, first, arrived, state, packets, settings, seed)
        packets[sensor, state[sensor, _COUNT]] = number + row
        state[sensor, _COUNT] += 1
        state[sensor, _TIME] = ts[row]
        state[sensor, _BALL] = is_ball[row]
        size = settings[_BALL_SIZE] if is_ball[row] else settings[_SIZE]
        if state[sensor, _COUNT] >= size:
            _close(sensor, ts[row], first, arrived, state, packets, settings, seed)


@compiled
def _time_out(
    now: int, end: bool, first: int, arrived: Ints, state: Ints, packets: Ints, settings: Ints,
    seed: np.uint64,
) -> None:  # fmt: skip
    """Send packets that have waited long enough; at the end, all."""
    for sensor in range(len(state)):
        if state[sensor, _COUNT] == 0:
            continue
        ready = state[sensor, _TIME] + settings[_WAIT]
        if ready <= now or end:
            _close(sensor, min(ready, now), first, arrived, state, packets, settings, seed)
