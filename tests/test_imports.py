"""What is slow to load is loaded where it is used, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    """Spark starts a process that loads the operator, only to ask which state it has."""
    slow = tuple(name for name in SLOW if name not in ("pyspark", "pyarrow.compute"))
    assert not loaded("import betimes.spark.slots.operator", slow)
