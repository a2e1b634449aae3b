"""Contract 3: what a sink holds after faults is what it holds without."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from betimes import spark as bs
from betimes.spark.query.sinks import FileSink
from tests.spark import ledger
from tests.spark.faults import (
    BATCHES,
    cut,
    fresh,
    rows,
    run_through_kills,
    touches_in,
    victim,
)
from tests.spark.material import standing, write_parts

BROKEN = (1, 3)
SEEDS = int(os.environ.get("BETIMES_KILL_SEEDS", "1"))
"""Each seed takes about a minute; `BETIMES_KILL_SEEDS=20` looks longer."""


def test_a_batch_is_run_again_after_its_sink_was_written(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path
) -> None:
    folder = fresh(source, tmp_path)
    sink = FileSink(str(folder / "out"))
    broken: list[int] = []

    def write(changes: DataFrame, batch: int) -> None:
        sink.write(changes, batch)
        if batch in BROKEN and batch not in broken:
            broken.append(batch)
            raise OSError("the connection was lost")

    for _ in BROKEN:
        checkpoint = str(folder / "checkpoint")
        run = bs.write(
            touches_in(spark, folder), into=write, checkpoint=checkpoint, available_now=True
        )
        with pytest.raises(bs.RunError, match="the connection was lost"):
            run.wait()
    run = bs.write(touches_in(spark, folder), into=write, checkpoint=checkpoint, available_now=True)
    run.wait()
    run.stop()
    # As if the process had died between the sink's last write and Spark's note of it.
    (folder / "checkpoint" / "query" / "commits" / str(BATCHES - 1)).unlink()
    (folder / "checkpoint" / "query" / "commits" / f".{BATCHES - 1}.crc").unlink(missing_ok=True)
    with bs.write(
        touches_in(spark, folder), into=write, checkpoint=checkpoint, available_now=True
    ) as run:
        run.finish()
    assert broken == list(BROKEN)
    assert rows(spark, folder) == undisturbed


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_driver_is_killed_at_random_points(
    spark: SparkSession,
    source: Path,
    undisturbed: list[Row],
    windows_source: Path,
    windows_undisturbed: list[Row],
    tmp_path: Path,
    seed: int,
) -> None:
    """While it runs touches, windows and transactions; every second time with adaptive attenuation.

    What is announced early then depends on the load, so only what stands in the end is the same.
    That is so too if a kill came after Spark had looked for files and before it had noted the
    batch: then that batch has never been, and another one is cut, with one file more.
    """
    adaptive = seed % 2 == 1
    sources = {"touches": source, "windows": windows_source}
    for name, folder in sources.items():
        fresh(folder, tmp_path / name)
    write_parts(ledger.TABLE, tmp_path / "ledger" / "in", ledger.ROWS)
    more = ["--adaptive"] if adaptive else []
    run_through_kills(tmp_path, random.Random(seed), *sources, "ledger", *more)
    for (name, folder), told in zip(
        sources.items(), (undisturbed, windows_undisturbed), strict=True
    ):
        found = rows(spark, tmp_path / name)
        assert standing(found) == standing(told)
        if not adaptive and cut(tmp_path / name) == cut(folder):
            assert found == told
    transfers = ledger.written(spark, tmp_path / "ledger")
    if not adaptive and len(cut(tmp_path / "ledger")) == ledger.COUNT // ledger.ROWS:
        assert ledger.told(transfers) == ledger.told(ledger.run_locally(ledger.TABLE, ledger.ROWS))


def test_processes_are_killed_in_the_middle_of_a_window(
    spark: SparkSession, windows_source: Path, windows_undisturbed: list[Row], tmp_path: Path
) -> None:
    """Python workers, which Spark replaces: one with instances, and one with an engine."""
    folder = fresh(windows_source, tmp_path / "windows")
    times = sorted({row.ts for row in windows_undisturbed if row.type == "high"})
    deadly = [str(times[len(times) * share // 10]) for share in (4, 7)]
    with victim(tmp_path, "windows", "--master", "local[2,4]", "--deadly", *deadly) as process:
        assert process.wait(timeout=600) == 0
    assert all((folder / each).exists() for each in deadly), "nobody was killed"
    assert rows(spark, folder) == windows_undisturbed
