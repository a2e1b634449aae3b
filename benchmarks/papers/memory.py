"""Memory of the three modes, as memory: what a process grows by while it runs one of them.

Each run has a process of its own, because what one run frees, the next would take without growing.
Before the measurement, the process makes the stream and runs some of it, which loads all that is
compiled. The stream itself does not count: it is copied piece by piece, so what counts is
what the engine keeps of it. Before each reading, allocators return what they keep for later: how
much that is depends on the largest batch so far, and no detector holds it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.papers.machine import Machine
from benchmarks.papers.speculating import MODES, run
from benchmarks.racing import resident_bytes
from benchmarks.snippet import Snippet
from betimes.apps.soccer.disorder import PRESETS
from betimes.engine import Engine
from betimes.model.change import ChangeBatch

PIECE = 3_400
"""Positions per piece of the copied stream."""
WARM_UP = 5.0
"""Seconds of the match before the measurement; by then, most detectors have found something."""
RETENTION = ("32 MB", "0s")
"""The default, and none: how much is remembered so that late events can be repaired."""


class Watch:
    """Megabytes per detector by which this process has grown, batch by batch."""

    def __init__(self) -> None:
        gc.collect()
        _give_back()
        self.grown: list[float] = []
        self._before = resident_bytes()

    def __call__(self, engine: Engine, _: ChangeBatch) -> None:
        _give_back()
        grown = resident_bytes() - self._before
        self.grown.append(grown / len(engine.hierarchy) / 1e6)


def _give_back() -> None:
    """Let the allocators of Arrow and C return what nobody uses."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _copied(snippet: Snippet) -> Iterator[pa.Table]:
    for low in range(0, snippet.arrivals.num_rows, PIECE):
        piece = snippet.arrivals.slice(low, PIECE)
        yield piece.take(np.arange(len(piece)))


def measured(seconds: float, slowness: float) -> dict[str, dict[str, float]]:
    """Megabytes per detector in each mode, mean and most, with and without history."""
    found = {}
    for retention in RETENTION:
        for mode in MODES:
            command = [sys.executable, "-m", "benchmarks.papers.memory", mode, retention]
            command += [str(seconds), str(slowness)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[f"{mode}, retention {retention}"] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("retention")
    parser.add_argument("seconds", type=float)
    parser.add_argument("slowness", type=float)
    options = parser.parse_args()
    warm_up = Snippet.of(min(WARM_UP, options.seconds), PRESETS["bursts"])
    for attenuation in (0, 1):
        run(Machine(1.0), _copied(warm_up), attenuation=attenuation)
    stream = Snippet.of(options.seconds, PRESETS["bursts"])
    watch = Watch()
    run(
        Machine(options.slowness), _copied(stream), watch,
        attenuation=MODES[options.mode], retention=options.retention,
    )  # fmt: skip
    print(json.dumps({"mean": statistics.mean(watch.grown), "most": max(watch.grown)}))


if __name__ == "__main__":
    main()
