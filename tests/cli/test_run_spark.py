"""`betimes run` on Spark: the same job gives the same result."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from betimes import fold
from betimes.spark import current
from betimes.testing import oracle
from tests.cli.jobs import EXAMPLE, changes, events, make, run, stream, touches, written
from tests.spark.conftest import spark

__all__ = ["spark"]  # a fixture: one session for all tests that need one


def test_the_same_result_as_in_one_process(tmp_path: Path, spark: SparkSession) -> None:  # noqa: ARG001
    file = make(tmp_path, ('kind = "local"', 'master = "local[2]"\nslots = 2'))
    result = run(file)
    assert result.exit_code == 0, result.stderr
    rows = written(tmp_path / "out")
    assert fold(changes(rows)) == oracle(touches(), events(stream()), by="key")
    assert {row["slot"] for row in rows} == {0, 1}
    assert "6,000 in 3 batches" in result.stderr
    again = run(file)
    assert again.exit_code == 1
    assert "was finished" in again.stderr


def test_a_detector_from_beside_the_job_file(tmp_path: Path, spark: SparkSession) -> None:  # noqa: ARG001
    """The module goes to the workers; the stream is simulated and stays open."""
    shutil.copy(EXAMPLE.parent / "touches.py", tmp_path / "touches_on_spark.py")
    job = EXAMPLE.read_text().replace('kind = "local"', 'master = "local[2]"')
    job = job.replace("touches:pairs", "touches_on_spark:pairs").replace(
        "rows = 1000", "rows = 9000"
    )
    (tmp_path / "job.toml").write_text(job.replace("[source]", '[source]\nend = "open"'))
    result = run(tmp_path / "job.toml")
    assert result.exit_code == 0, result.stderr
    rows = written(tmp_path / "changes", "csv")
    assert {row["type"] for row in rows} == {"touch", "pair"}
    assert "more may come" in result.stderr


def test_names_of_folders_may_look_like_patterns(tmp_path: Path, spark: SparkSession) -> None:
    """Of the source, the sink, the table as it stands, and the checkpoint."""
    here = tmp_path / "run [1] {a}*?"
    here.mkdir()
    file = make(
        here, ('kind = "local"', 'master = "local[2]"\nslots = 2'),
        ('path = "out/"', 'path = "out/"\ncurrent = "current/"'),
    )  # fmt: skip
    result = run(file)
    assert result.exit_code == 0, result.stderr
    expected = oracle(touches(), events(stream()), by="key")
    assert fold(changes(written(here / "out"))) == expected
    assert current(spark, str(here / "current")).count() == expected.total()


def test_a_single_file_is_a_source(tmp_path: Path, spark: SparkSession) -> None:  # noqa: ARG001
    """Also among others, and with a name that looks like a pattern."""
    file = make(
        tmp_path, ('kind = "local"', 'master = "local[2]"\nslots = 2'),
        ('path = "events/"', 'path = "events/all [1].parquet"'),
    )  # fmt: skip
    pq.write_table(stream(), tmp_path / "events" / "all [1].parquet")
    result = run(file)
    assert result.exit_code == 0, result.stderr
    found = changes(written(tmp_path / "out"))
    assert fold(found) == oracle(touches(), events(stream()), by="key")
