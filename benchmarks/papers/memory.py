"""Memory of the three modes, as memory: the bytes that a process has in use while it runs one.

Resident memory also counts what allocators keep for later, and how much that is depends on the
largest batch so far and on what else the process has done. So the allocator itself is asked
(`mallinfo2` of the C library) how many bytes are handed out. It knows all of them: each run has a
process of its own, in which Python and Arrow take their memory from there, as NumPy and compiled
code always do. Its own overhead per block is included.

What counts is the growth from before the engine was made, after each batch. Before that, the
process finds out how slow its machine has to be, which also loads all that is compiled. The stream
itself does not count: it is copied piece by piece, so what counts is what the engine keeps of it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.papers.machine import Machine, slowness_for
from benchmarks.papers.speculating import MODES, run
from benchmarks.snippet import Snippet
from betimes.apps.soccer.disorder import PRESETS
from betimes.engine import Engine
from betimes.model.change import ChangeBatch

PIECE = 3_400
"""Positions per piece of the copied stream."""
RETENTION = ("32 MB", "0s")
"""The default, and none: how much is remembered so that late events can be repaired."""
ONE_ALLOCATOR = {
    "PYTHONMALLOC": "malloc",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Blocks that are free, but kept for the next one of their size, would count as in use.
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}


class _Malloc(ctypes.Structure):
    """`struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def in_use() -> int:
    """The bytes that the C library has handed out, in its arenas and as mappings of their own."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Malloc
    found = ask()
    return int(found.uordblks + found.hblkhd)


class Watch:
    """Megabytes per detector by which the memory in use has grown, batch by batch."""

    def __init__(self) -> None:
        gc.collect()
        self.grown: list[float] = []
        self._before = in_use()

    def __call__(self, engine: Engine, _: ChangeBatch) -> None:
        grown = in_use() - self._before
        self.grown.append(grown / len(engine.hierarchy) / 1e6)


def _copied(snippet: Snippet) -> Iterator[pa.Table]:
    for low in range(0, snippet.arrivals.num_rows, PIECE):
        piece = snippet.arrivals.slice(low, PIECE)
        yield piece.take(np.arange(len(piece)))


def measured(seconds: float, retentions: Sequence[str] = RETENTION) -> dict[str, dict[str, float]]:
    """Megabytes per detector in each mode, mean and most, with and without history."""
    found = {}
    for retention in retentions:
        for mode in MODES:
            command = [sys.executable, "-m", "benchmarks.papers.memory", mode, retention]
            command.append(str(seconds))
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | ONE_ALLOCATOR
            )
            found[f"{mode}, retention {retention}"] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("retention")
    parser.add_argument("seconds", type=float)
    options = parser.parse_args()
    stream = Snippet.of(options.seconds, PRESETS["bursts"])
    machine = Machine(slowness_for(stream))
    watch = Watch()
    run(
        machine, _copied(stream), watch,
        attenuation=MODES[options.mode], retention=options.retention,
    )  # fmt: skip
    print(json.dumps({"mean": statistics.mean(watch.grown), "most": max(watch.grown)}))


if __name__ == "__main__":
    main()
