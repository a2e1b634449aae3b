"""History that no longer changes is in the state store once, and engines are rebuilt with it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from betimes import spark as bs
from tests.spark.material import (
    in_order,
    read,
    run_locally,
    standing,
    stream,
    write_parts,
)
from tests.spark.short_logs import touches

ROWS, PARTS, LATER = 10_000, 8, (6, 7)


def volumes(spark: SparkSession, checkpoint: Path) -> dict[bytes, int]:
    """The volumes in the state store, with their sizes."""
    state = spark.read.format("statestore").option("path", str(checkpoint / "query"))
    rows = state.option("stateVarName", "volumes").load().collect()
    return {bytes(r.user_map_key.name): len(r.user_map_value.volume) for r in rows}


def test_an_engine_is_rebuilt_from_volumes(spark: SparkSession, tmp_path: Path) -> None:
    table = stream(ROWS * PARTS)
    source = write_parts(table, tmp_path / "in", ROWS)
    later = [source / f"part-{number:05}.parquet" for number in LATER]
    for file in later:
        shutil.move(file, tmp_path / file.name)
    options: dict[str, Any] = {"attenuation": 0.3, "retention": "3s", "snapshots": 50}

    def run(name: str, folder: Path, *, ends: bool) -> None:
        rows = read(spark, folder)
        changes = bs.detect(rows, touches(), arrival="seq", by="key", slots=1, **options)
        place = str(tmp_path / f"kept-{name}")
        with bs.write(changes, str(tmp_path / name), checkpoint=place, available_now=True) as run:
            if ends:
                run.finish()
            else:
                run.wait()

    run("out", source, ends=False)
    before = volumes(spark, tmp_path / "kept-out")
    # The engine of another query takes the place of this one, which has to be built again.
    run("other", write_parts(stream(1000), tmp_path / "few", 1000), ends=False)
    for number, file in enumerate(later):
        shutil.move(tmp_path / file.name, file)
        os.utime(file, (time.time() + number,) * 2)
    run("out", source, ends=True)
    after = volumes(spark, tmp_path / "kept-out")
    assert before.keys() & after.keys(), "history that is still there was not written again"
    assert before.keys() - after.keys(), "history that was forgotten is gone"
    assert after.keys() - before.keys()
    rows = in_order(spark.read.parquet(str(tmp_path / "out")).collect())
    assert standing(rows) == standing(run_locally(table, touches(), rows=ROWS, **options))
