"""Random interleavings in virtual time: `python -m tests.transactions.interleavings --runs 20000`.

Each run is made from its number: a random operator, events that arrive at any time and in any
order, workers, costs, and a predictor. In the end, every record and the state must be those of the
serial run, everything must be committed, and no transaction may have run more often than once plus
once for each run of an earlier one. To repeat one run: `--first N --runs 1`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from betimes.model import Event
from betimes.testing.transacting import transact
from betimes.transactions.predictors import Choice, horizon
from tests.engine.progress import shown
from tests.transactions.material import execute, payload_of
from tests.transactions.test_book import check, events_of


def every_second(_event: Event, ahead: int) -> int:
    return 3 if ahead % 2 else 1


def never_sure(event: Event, _ahead: int) -> bool | None:
    return None if event.ts % 3 else True


PREDICTORS: list[Choice] = [
    "always", "never", "dynamic", "learned", "adaptive", horizon(1), horizon(5), every_second,
    never_sure,
]  # fmt: skip


def one_run(number: int) -> int:
    """Check one interleaving; returns how many executions it had."""
    chance = random.Random(number)
    events = events_of([payload_of(chance) for _ in range(chance.randint(1, 24))])
    costs = [chance.choice([0, 1, 10, 100]) * chance.randint(0, 9) for _ in events]
    arrivals = [(chance.randint(0, 400), event) for event in events]
    worked = transact(
        execute,
        arrivals,
        workers=chance.choice([1, 2, 4, 8, 32]),
        predictor=chance.choice(PREDICTORS),
        cost=lambda event: costs[event.ts],
        overhead=chance.choice([0, 0, 5]),
        transit=(0, chance.choice([0, 20, 200])),
        seed=number,
    )
    check(worked.book, events)
    assert sorted(worked.committed) == list(range(len(events))), "everything is committed"
    before = 0
    for entry in worked.book.entries:
        assert entry.runs <= 1 + before, "it ran again without a reason"
        before += entry.runs
    return worked.executions


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=20_000)
    options = parser.parse_args(arguments)
    began, executions = time.monotonic(), 0
    for number in shown(range(options.first, options.first + options.runs), "runs"):
        try:
            executions += one_run(number)
        except Exception:  # noqa: BLE001 - whatever goes wrong, the number is what matters
            traceback.print_exc()
            sys.exit(f"run {number} failed; repeat it with --first {number} --runs 1")
    print(
        f"{options.runs:,} interleavings, {executions:,} executions: all serial in effect "
        f"({time.monotonic() - began:.0f} s)"
    )


if __name__ == "__main__":
    main()
