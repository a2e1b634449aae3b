"""One session for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from betimes import spark as bs


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
        # Only queries of `write` set their own number; a table of a few rows needs no more.
        "spark.sql.shuffle.partitions": "2",
    }
