"""What is slow to load is loaded where it is used, and not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from betimes import EngineOptions, Hierarchy, pattern
from betimes.host import Columns
from betimes.spark.job import Job
from betimes.spark.slots.processor import processor_of

SLOW = (
    "importlib.metadata", "matplotlib", "numba", "pandas", "polars", "pyarrow.compute",
    "pyarrow.dataset", "pyspark", "scipy",
)  # fmt: skip
FOR_PEOPLE = ("click", "rich", "typer")


def loaded(statement: str, among: tuple[str, ...]) -> list[str]:
    """Which of these modules a new process has after a statement."""
    script = f"import sys\n{statement}\nprint(*(n for n in {among!r} if n in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "module", ["betimes", "betimes.host", "betimes.testing.oracle", "betimes.apps.soccer"]
)
def test_the_library_loads_nothing_slow(module: str) -> None:
    assert not loaded(f"import {module}", (*SLOW, *FOR_PEOPLE))


def test_the_command_line_loads_nothing_slow() -> None:
    assert not loaded("import betimes.cli", SLOW)


def test_the_driver_of_a_query_does_not_wait_for_pandas() -> None:
    slow = tuple(name for name in SLOW if name not in ("pyspark", "pyarrow.compute"))
    assert not loaded("import betimes.spark.slots.processor", slow)


def test_a_process_that_only_names_the_state_loads_nothing_of_ours(tmp_path: Path) -> None:
    """Spark starts one for each query, and the first micro-batch waits for it."""
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(pattern("A B", emits="pair"))
    job = Job.of(hierarchy, Columns(), EngineOptions())
    processor = tmp_path / "processor"
    processor.write_bytes(cloudpickle.dumps(processor_of(job)))  # type: ignore[no-untyped-call]
    script = (
        "import pathlib, pickle, unittest.mock\n"
        f"processor = pickle.loads(pathlib.Path({str(processor)!r}).read_bytes())\n"
        "processor.init(unittest.mock.Mock())\n"
        "processor.close()"
    )
    assert not loaded(script, ("betimes", "numpy", "pyarrow", "pandas"))
