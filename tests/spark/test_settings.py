"""What a session is made with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from betimes.spark.query.launcher import launcher
from betimes.spark.query.settings import _stderr_to


def say(text: str) -> None:
    """A process that writes to its stderr, as the JVM of a session does."""
    subprocess.run([sys.executable, "-c", f"import os; os.write(2, b'{text}')"], check=True)


def test_processes_that_are_started_inside_write_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("before ")
    with _stderr_to(log):
        say("noise")
    say("afterwards")
    assert log.read_text() == "before noise"
    assert capfd.readouterr().err == "afterwards"


def test_workers_are_forked_with_compiled_code() -> None:
    """An engine that is fed in a worker then neither loads numba nor compiles its ordering unit."""
    script = """
from betimes.spark.daemon import load_compiled
load_compiled()
from betimes import Engine, Event, Hierarchy
from betimes.ordering import kernel
before = list(kernel.feed.signatures)
hierarchy = Hierarchy(clock="tick")
hierarchy.add(lambda event: None, on="tick", emits="nothing", name="Nothing")
Engine(hierarchy, attenuation=0.3).feed([Event("tick", ts) for ts in range(100)])
print(len(before), kernel.feed.signatures == before)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout.split() == [b"1", b"True"]


def test_the_launcher_takes_only_the_zip_files_of_spark_off_the_path() -> None:
    def path(before: list[str]) -> list[str]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(before)}
        shown = [str(launcher()), "-c", "import sys; print(sys.executable, *sys.path, sep='\\n')"]
        done = subprocess.run(shown, check=True, capture_output=True, text=True, env=environment)
        python, _, *found = done.stdout.splitlines()
        assert python == sys.executable
        return [place for place in found if place in before]

    zips = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9-src.zip"]
    assert path([*zips, "/spark/core.jar", "/my own"]) == ["/spark/core.jar", "/my own"]
    assert path(["/my own", "/pyspark.zip/more"]) == ["/my own", "/pyspark.zip/more"]


def test_workers_find_pyspark_where_it_is_installed(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [str(pyspark.__file__)]})

    (row,) = spark.range(1).mapInArrow(where, "file string").collect()
    assert row["file"] == pyspark.__file__
