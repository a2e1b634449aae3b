"""What a run says: progress in lines, a summary, and how it answers signals."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from betimes.cli.jobs.jobfile.conflicts import read_job
from betimes.cli.jobs.running.on_spark import files_per_batch
from betimes.cli.jobs.running.progress import EVERY, Progress, Reading
from betimes.cli.jobs.running.stopping import hearing_signals
from betimes.cli.jobs.running.totals import Totals
from betimes.host.tally import Tally
from tests.cli.jobs import make, write_events


def test_without_a_terminal_there_is_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    progress = Progress(quiet=False, live=True, clock=lambda: now)
    progress.begin(0)
    for rows in range(1, 13):
        now = float(rows)
        progress.show(lambda: Reading(Totals(1000 * rows, tally=Tally(3)), slack=1500))  # noqa: B023
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == int(12 // EVERY)
    assert lines[0].startswith("betimes: rows 5,000 · rate 1,000/s · slack 1.5 ms")


def test_waiting_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Spark takes a while to start; lines full of zeros would say nothing."""
    now = 0.0
    progress = Progress(quiet=False, live=False, clock=lambda: now)
    progress.begin(0)
    waiting = Reading(Totals(), waiting_for="the first micro-batch")
    for reading in [waiting] * 3 + [Reading(Totals(1000))] * 2:
        now += EVERY
        progress.show(lambda: reading)  # noqa: B023
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "betimes: waiting for the first micro-batch"
    assert len(others) == 2
    assert all(line.startswith("betimes: rows 1,000") for line in others)


def test_the_summary_of_a_run_that_found_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(quiet=False, live=False)
    progress.summary(Reading(Totals(9, 1)), "nowhere", outcome="the end")
    lines = [line.split() for line in capsys.readouterr().err.splitlines()[1:]]
    assert ["remaining", "0"] in lines
    assert ["known", "after", "-"] in lines
    assert ["final", "after", "-"] in lines


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = Progress(quiet=True, live=True, clock=lambda: now)
    now = 100.0
    progress.show(lambda: Reading(Totals()))
    progress.note("something")
    progress.summary(Reading(Totals()), "nowhere", outcome="the end")
    assert capsys.readouterr().err == ""


def test_a_second_interrupt_does_not_wait() -> None:
    before = signal.getsignal(signal.SIGINT)
    with hearing_signals() as stop:
        assert not stop
        began = time.monotonic()
        signal.raise_signal(signal.SIGINT)
        assert stop.wait(10)
        assert time.monotonic() - began < 5
        assert stop.exit_code == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(("format", "rows"), [("parquet", 4000), ("csv", 4000), ("json", 4000)])
def test_spark_gets_files_for_about_a_batch(tmp_path: Path, format: str, rows: int) -> None:  # noqa: A002
    """Three files of 2,000 rows: two of them make up 4,000."""
    write_events(tmp_path / "events", format=format)
    source = ('format = "parquet"\npath = "events', f'format = "{format}"\npath = "events')
    file = make(tmp_path, source, ("batch_rows = 500", f"batch_rows = {rows + 400}"))
    assert files_per_batch(read_job(file)) == 2
