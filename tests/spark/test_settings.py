"""What a session is made with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
