"""What the pipeline costs: `python -m benchmarks.spark_pipeline [--quick] [--events N] [--json]`.

`--few` only runs the contenders that the targets of 64 keys are about, and whole runs: 5 minutes.

`A !(A|B) C` by key on the stream of the other benchmarks, from Parquet files, one per micro-batch,
to a sink that writes nothing. All contenders run in one session with the same settings:

* *detect*: this library, with a compiled pattern and speculation (attenuation 0.3);
* *ceiling*: `mapInArrow` that passes rows through. It has no state and no shuffle;
* *floor*: the plan of `detect` with nothing in it. Rows go to Python, and as many bytes as `detect`
  stores go on to an operator that stores them. It finds nothing;
* *by hand*: what you would write without this library, with `applyInPandasWithState` and with
  `transformWithStateInPandas`, grouped by key: events go through a heap one by one, and come out
  when they are 150 ms behind the newest of their key, a bound that somebody has to know. They get
  all rows, as `detect` does: the clock events, seven of eight, tell how far a key has come. The
  targets compare with these.
* *tuned*: the better of the two, optimised for speed: it sorts once per batch, and drops clock
  events with pandas first. *Filtered*: it drops them in the source; a key then advances only with
  its own A, B and C, so its last matches wait for its next event.

A rate is rows over the median time of a micro-batch, without the first two of each run, in which
workers start. Contenders take turns, and a ratio is the median of the ratios within a round. The
first laps are not timed, because the JVM is still compiling. In the first one, every contender must
find exactly the matches that sorting the whole stream gives, as far as the bound allows.

*Start and end included*: `detect` and the contenders written by hand, each in a new process with a
new session, from its start to the end of the run, by the wall clock; see `whole`.

*Growth*: `detect` alone, with more keys, and with micro-batches of 100 rows on engines that hold
1 MB and more; next to it, the time that `applyInPandasWithState` needs only to carry as many bytes
to Python and back. *Settings*: the time of a micro-batch with one setting back at Spark's default;
and the time that it and the ceiling take without the byte limit, which `write` lifts if all columns
are numbers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.racing import Race, Result, Target, report
from benchmarks.revisions import run_module
from benchmarks.spark_pipeline.bench import Bench, better, new_session
from benchmarks.spark_pipeline.contenders import CONTENDERS, HANDMADE
from benchmarks.spark_pipeline.growth import (
    DEFAULTS,
    growth_with_keys,
    growth_with_state,
    what_no_limit_wins,
    what_session_wins,
    what_settings_win,
)

ROWS = 200_000
MANY_SLOTS = 2
STATES = (7_000, 133_000, 670_000)
"""Open keys, for engines of about 1, 20 and 100 MB."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_pipeline")
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=2_000_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--few", action="store_true", help="64 keys and whole runs only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="betimes-bench-"))
    try:
        bench = Bench(new_session({}), folder)
        chosen = run_few if options.few else run_all
        run = run_quick if options.quick else partial(chosen, events=options.events)
        races, targets, readings = run(bench)
    finally:
        if running := SparkSession.getActiveSession():
            running.stop()
        shutil.rmtree(folder)
    report(races, targets, readings=readings, as_json=options.json)


def whole_race(title: str, events: int, files: Path, *, rounds: int) -> Race:
    """Whole runs in new processes."""
    seconds: dict[str, list[float]] = {name: [] for name in ("detect", *HANDMADE)}
    for _ in range(rounds):
        for name, each in seconds.items():
            said = run_module("benchmarks.spark_pipeline.whole", name, str(files))
            each.append(json.loads(said.splitlines()[-1])["whole"])
    results = {name: Result(name, events, tuple(times)) for name, times in seconds.items()}
    return Race(title, results, HANDMADE)


Found = tuple[list[Race], list[Target], dict[str, dict[str, str]]]


def run_quick(bench: Bench) -> Found:
    """A small run, too short for conclusions."""
    rows = 50_000
    files = bench.files("few", 4 * rows, rows, 64)
    names = ["ceiling", "detect", *HANDMADE]
    title = f"64 keys, micro-batches of {rows:,}"
    small = bench.files("small", 600, 100, 64)
    return [
        bench.race(title, names, rounds=1, rows=rows, files=files),
        bench.race("64 keys, micro-batches of 100", names, rounds=1, rows=100, files=small),
    ], [], {}  # fmt: skip


def run_few(bench: Bench, *, events: int) -> Found:
    """What 64 keys cost, beside a plan with nothing in it and the fastest jobs written by hand."""
    few = bench.files("few", events, ROWS, 64)
    names = ["ceiling", "floor", "detect", "filtered"]
    title = f"64 keys, micro-batches of {ROWS:,}"
    race = bench.race(title, names, rounds=3, rows=ROWS, files=few)
    bench.spark.stop()
    whole = whole_race(f"{events:,} events, start and end included", events, few, rounds=2)
    return [replace(race, yardsticks=("ceiling", "floor", "filtered")), whole], [
        Target("64 keys, x ceiling", 0.7, race.ratio("detect", "ceiling")),
        Target("64 keys, x filtered by hand", 1.1, race.ratio("detect", "filtered")),
        Target("start and end included, x better by hand", 1, better(whole)),
    ], {}  # fmt: skip


def run_all(bench: Bench, *, events: int) -> Found:
    rows = ROWS
    everybody = list(CONTENDERS)
    few = bench.files("few", events, rows, 64)
    many = bench.files("many", 4 * rows, rows, 10_000)
    small = bench.files("small", 1_200, 100, 64)
    title = f"64 keys, micro-batches of {rows:,}"
    races = [
        bench.race(title, everybody, rounds=3, rows=rows, files=few),
        replace(bench, slots=MANY_SLOTS).race(
            f"10,000 keys, micro-batches of {rows:,}", ["ceiling", "detect", *HANDMADE],
            rounds=1, rows=rows, files=many, laps=1,
        ),
        bench.race("64 keys, micro-batches of 100", everybody, rounds=4, rows=100, files=small),
        whole_race(f"{events:,} events, start and end included", events, few, rounds=3),
    ]  # fmt: skip
    sizes = {"200,000 rows": bench.files("setting", 5 * rows, rows, 64), "100 rows": small}
    readings = {
        f"growth with keys, micro-batches of {rows:,}": growth_with_keys(
            bench, rows, (64, 10_000, 1_000_000)
        ),
        "growth with state, micro-batches of 100": growth_with_state(bench, STATES),
        "time of a micro-batch": what_settings_win(bench, DEFAULTS, sizes, rounds=2)
        | what_no_limit_wins(bench, few, rounds=3)
        | what_session_wins(bench, sizes),
        "a micro-batch of 100": {
            name: f"{statistics.median(result.seconds) * 1000:,.0f} ms"
            for name, result in races[2].results.items()
        },
    }
    return (
        races,
        [
            Target("64 keys, x better by hand", 2.5, better(races[0])),
            Target("64 keys, x ceiling", 0.6, races[0].ratio("detect", "ceiling")),
            Target("10,000 keys, x better by hand", 10, better(races[1])),
            Target("100 rows, x better by hand", 1 / 1.2, better(races[2])),
            Target("start and end included, x better by hand", 1, better(races[3])),
        ],
        readings,
    )


if __name__ == "__main__":
    main()
