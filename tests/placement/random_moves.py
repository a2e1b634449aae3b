"""Placed hierarchies of every kind of detector against one engine, with moves and deaths.

`python -m tests.placement.random_moves --runs 10000`: each number stands for a hierarchy, a stream
and options (those of `tests.engine.random_runs`, without what one place has to see), and for a
virtual cluster in which messages are delayed, overtake each other and are repeated, detectors move
and nodes die. The changes must be those of one engine, and their fold that of the oracle.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from betimes.engine import Engine
from betimes.model import Event
from betimes.model.change import Change, fold
from betimes.testing.cluster import VirtualCluster
from tests.engine.cases import small_sizes
from tests.engine.material import FOREVER, flat
from tests.engine.progress import shown
from tests.engine.random_runs import Run, run_of


def options_of(run: Run) -> dict[str, Any]:
    """Its options, as far as a placed engine takes them."""
    taken = {name: value for name, value in run.options.items() if name != "carry"}
    return taken | {"retention": FOREVER, "order": "shared", "source": None}


def cut(run: Run) -> list[list[Event]]:
    rng, found, stream = random.Random(run.rng.random()), [], list(run.stream)
    while stream:
        count = rng.choice([1, 1, 3, 10, 1000])
        found.append(stream[:count])
        stream = stream[count:]
    return found


def rows(changes: Sequence[Change]) -> list[tuple[Any, ...]]:
    return [(c.change_type, c.status, c.match_id, c.seq, c.detected_at, c.slack) for c in changes]


def check(number: int, seed: int) -> int:
    """Run it; an AssertionError says what is wrong. Returns how many moves there were."""
    run = run_of(number, seed)
    rng, options, batches = random.Random(f"{seed} {number}"), options_of(run), cut(run)
    alone = Engine(run.hierarchy, **options)
    wanted = [*flat([*alone.feed(batch)] for batch in batches), *alone.finish(advance=run.advance)]
    nodes = VirtualCluster(
        rng.randint(1, 4), seed=number, latency=rng.choice([0, 300]), jitter=rng.choice([0, 5_000]),
        repeated=rng.choice([0.0, 0.3]), work=rng.choice([0, 20]), log_bytes=rng.choice([0, 9_000]),
    )  # fmt: skip
    engine, changes = Engine(run.hierarchy, workers=nodes, **options), list[Change]()
    for batch in batches:
        changes += engine.feed(batch)
        nodes.run(nodes.now + rng.choice([0, 300, 4_000]))
        if rng.random() < 0.1:
            nodes.kill(rng.choice(nodes.names), noticed=rng.choice([0, 4_000]))
        if rng.random() < 0.3:
            stage = rng.choice(sorted(nodes.homes.now))
            nodes.homes.move(stage, rng.choice(nodes.names), at_once=rng.random() < 0.5)
    changes += engine.finish(advance=run.advance)
    assert rows(changes) == rows(wanted)
    assert fold(changes) == fold(wanted)
    if not run.sources and "order" not in run.options:
        assert fold(changes) == run.expected()
    return nodes.homes.moves


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many as asked for; the exit code is 1 if any of them went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    wrong, moves, began = 0, 0, time.monotonic()
    numbers = range(asked.first, asked.first + asked.runs)
    with pytest.MonkeyPatch.context() as patch:
        small_sizes(patch)
        for number in shown(numbers, "runs"):
            try:
                moves += check(number, asked.seed)
            except Exception as error:  # noqa: BLE001 - whatever it is, it was found
                wrong += 1
                said = str(error)[:300]
                print(
                    f"run {number} of seed {asked.seed}: {type(error).__name__}: {said}", flush=True
                )
    took = time.monotonic() - began
    print(f"{asked.runs:,} runs, {moves:,} moves, {wrong:,} of the runs wrong, {took:,.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
