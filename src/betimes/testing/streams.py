"""Out-of-order streams, generated from a seed: for tests, benchmarks and demos."""

from __future__ import annotations

import numpy as np

from betimes.model import EventBatch
from betimes.model.hints import known_options


def delayed(batch: EventBatch, delays: np.ndarray) -> EventBatch:
    """The same events in order of arrival, if each is delayed by the given time.

    >>> batch = EventBatch(np.array([0, 10, 20]), np.zeros(3, np.int32), ("A",))
    >>> delayed(batch, np.array([0, 15, 0])).ts.tolist()
    [0, 20, 10]
    """
    return batch.take(np.argsort(batch.ts + delays, kind="stable"))


@known_options
def sensor_stream(n: int, *, seed: int = 0, stragglers: float = 0.01, start: int = 0) -> EventBatch:
    """The stream of the benchmarks: 88 % clock events that are 0-5 ms late, the others 5-45 ms.

    Events occur about 100 us apart; the share `stragglers` of them is up to 150 ms late.

    >>> stream = sensor_stream(1000, seed=1)
    >>> len(stream), stream.types
    (1000, ('ball', 'near', 'not_near', 'hit'))
    """
    rng = np.random.default_rng(seed)
    ts = start + np.cumsum(rng.integers(50, 151, n))
    codes = rng.choice(4, n, p=[0.88, 0.05, 0.02, 0.05]).astype(np.int32)
    delays = np.where(codes == 0, rng.integers(0, 5_001, n), rng.integers(5_000, 45_001, n))
    late = rng.random(n) < stragglers
    delays[late] = rng.integers(45_000, 150_001, int(late.sum()))
    return delayed(EventBatch(ts, codes, ("ball", "near", "not_near", "hit")), delays)
