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
