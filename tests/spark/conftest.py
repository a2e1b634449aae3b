"""One session for all tests of the pipeline, and runs that many of them compare with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from betimes import spark as bs
from tests.spark import faults
from tests.spark.material import stream, write_parts
from tests.spark.processes import JAVA_OPTIONS


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    session = bs.session("tests", master="local[2]", config=session_settings(folder))
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def session_settings(folder: Path) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        # Only queries of `write` set their own number; a table of a few rows needs no more.
        "spark.sql.shuffle.partitions": "2",
    }


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stream of touches."""
    folder = tmp_path_factory.mktemp("touches")
    write_parts(stream(faults.EVENTS, seed=5), folder / "in", faults.ROWS)
    return folder


@pytest.fixture(scope="session")
def undisturbed(spark: SparkSession, source: Path) -> list[Row]:
    """What a run of it writes that nothing happens to."""
    faults.run(faults.touches_in(spark, source), source)
    return faults.rows(spark, source)


@pytest.fixture(scope="session")
def windows_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a stream for windows."""
    folder = tmp_path_factory.mktemp("windows")
    write_parts(stream(faults.EVENTS, keys=4, seed=5), folder / "in", faults.ROWS)
    return folder


@pytest.fixture(scope="session")
def windows_undisturbed(spark: SparkSession, windows_source: Path) -> list[Row]:
    faults.run(faults.windows_in(spark, windows_source), windows_source)
    return faults.rows(spark, windows_source)
