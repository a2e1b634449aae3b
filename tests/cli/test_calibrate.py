"""`betimes calibrate`: from a job file to a configuration that `betimes run` takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from betimes import Calibration
from betimes.cli import app
from tests.cli.jobs import make, run, written
from tests.spark.conftest import spark

__all__ = ["spark"]  # a fixture: one session for all tests that need one

SECOND_LEVEL = ("[engine]", """[[detect.pattern]]
match = "touch again"
define = { again = "type == 'touch'" }
within = "30ms"
emits = "pair"

[engine]""")  # fmt: skip
PATIENT = ("attenuation = 0.3", 'attenuation = 1.0\nlate = "side"')


def calibrate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of two levels whose calibration.toml is there."""
    folder = tmp_path_factory.mktemp("job")
    result = calibrate("--quiet", make(folder, SECOND_LEVEL))
    assert result.exit_code == 0, result.stderr
    assert result.output == ""
    return folder


def test_a_run_that_starts_from_it_has_no_late_events(tmp_path: Path) -> None:
    file = make(tmp_path, SECOND_LEVEL, PATIENT)
    stumbling = run(file)
    assert stumbling.exit_code == 0, stumbling.stderr
    assert "late         0" not in stumbling.stderr
    result = calibrate(file)
    assert result.exit_code == 0, result.stderr
    line = result.stdout.splitlines()[-1]
    assert line == 'calibration = "calibration.toml"'
    assert "run 1: 6,000 events" in result.stderr
    assert "no slack changed" in result.stderr
    assert [row.split()[:2] for row in result.stdout.splitlines()[1:3]] == [
        ["touch", "1"], ["pair", "2"],
    ]  # fmt: skip
    make(tmp_path, SECOND_LEVEL, (PATIENT[0], f"{PATIENT[1]}\n{line}"))
    calibrated = run("--fresh", file)
    assert calibrated.exit_code == 0, calibrated.stderr
    assert "late         0" in calibrated.stderr
    assert {row["type"] for row in written(tmp_path / "out")} == {"touch", "pair"}


def test_a_file_from_before_is_compared_with(folder: Path) -> None:
    first = calibrate(folder / "job.toml", "--out", folder / "twice.toml")
    again = calibrate(folder / "job.toml", "--out", folder / "twice.toml")
    before, after = (
        next(line.split() for line in result.stdout.splitlines() if line.startswith("pair"))
        for result in (first, again)
    )
    assert after[2:4] == after[4:6] == before[2:4]
    assert "before" in again.stdout
    assert "before" not in first.stdout


def test_from_an_older_one(folder: Path) -> None:
    old = folder / "calibration.toml"
    result = calibrate(
        folder / "job.toml", "--from", old, "--network", "40ms", "--jitter", "near=400ms",
        "--back-setting", "touch=1s", "--out", folder / "far.toml",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    before, after = (Calibration.read(file).detectors for file in (old, folder / "far.toml"))
    assert after["touch"].slack == 400_000
    processing = before["touch"].emits["touch"].processing
    assert after["pair"].slack == 400_000 + processing + 40_000 + 1_000_000
    assert "run 1" not in result.stderr
    assert 'calibration = "far.toml"' in result.stdout


def test_jitter_can_be_measured_without_running_detectors(folder: Path) -> None:
    old, new = folder / "calibration.toml", folder / "measured.toml"
    wrong = old.read_text().replace('"hit" = "1', '"hit" = "9')
    assert wrong != old.read_text()
    (folder / "edited.toml").write_text(wrong)
    result = calibrate(
        "--quiet", folder / "job.toml", "--from", folder / "edited.toml", "--measure-jitter",
        "--out", new,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    known, found = (Calibration.read(file).detectors for file in (old, new))
    assert found["touch"].jitter == known["touch"].jitter
    assert found["touch"].slack == known["touch"].slack


def test_what_had_to_be_assumed_is_said(folder: Path, tmp_path: Path) -> None:
    file = make(tmp_path, (SECOND_LEVEL[0], SECOND_LEVEL[1].replace('"pair"', '"double"')))
    result = calibrate(file, "--from", folder / "calibration.toml")
    assert result.exit_code == 0, result.stderr
    assert "betimes: double is new: assumed" in result.stderr
    assert "--back-setting double=50ms" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--network", "40ms"], "expected --from together with --network"),
        (["--measure-jitter"], "expected --from together with --measure-jitter"),
        (["--from", "none.toml"], "none.toml"),
        (["--from", "calibration.toml", "--max-runs", "2"], "--from runs nothing"),
        (["--from", "calibration.toml", "--jitter", "naer=5ms"], "did you mean 'near'?"),
        (["--from", "calibration.toml", "--network", "soon"], "expected --network to be a dura"),
        (
            ["--from", "calibration.toml", "--network", "1ms", "--network", "pair=2ms"],
            "expected --network TIME once, or --network TYPE=TIME for each type",
        ),
        (["--max-runs", "0"], "max-runs"),
    ],
)
def test_bad_options_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    result = calibrate("job.toml", "--out", "unused.toml", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "unused.toml").exists()


def test_what_was_measured_is_not_replaced_by_accident(folder: Path) -> None:
    measured = (folder / "calibration.toml").read_bytes()
    result = calibrate(folder / "job.toml", "--from", folder / "calibration.toml")
    assert result.exit_code == 2
    assert "write to another file with --out FILE" in result.stderr
    assert (folder / "calibration.toml").read_bytes() == measured


def test_the_file_of_another_job_is_replaced_only_if_it_is_named(tmp_path: Path) -> None:
    """Two jobs in one folder write the same file, unless told otherwise."""
    first = make(tmp_path, SECOND_LEVEL)
    assert calibrate("--quiet", first).exit_code == 0
    assert calibrate("--quiet", first).exit_code == 0, "the same job may calibrate again"
    file = tmp_path / "calibration.toml"
    measured = file.read_bytes()
    second = make(tmp_path)
    result = calibrate(second)
    assert result.exit_code == 2
    assert "calibration.toml was made for another hierarchy" in result.stderr
    assert "'pair' is not in the hierarchy" in result.stderr
    assert "write to another file with --out FILE" in result.stderr
    assert "run 1" not in result.stderr
    copy = tmp_path / "copy.toml"
    copy.write_bytes(measured)
    adapted = calibrate(second, "--from", copy)
    assert "calibration.toml was made for another hierarchy" in adapted.stderr
    assert file.read_bytes() == measured
    assert calibrate("--quiet", second, "--out", file).exit_code == 0
    assert list(Calibration.read(file).detectors) == ["touch"]


def test_a_file_of_an_older_version_is_replaced(tmp_path: Path) -> None:
    """Nobody can use it, and its message says to make it again."""
    (tmp_path / "calibration.toml").write_text("format = 1\n")
    assert calibrate("--quiet", make(tmp_path)).exit_code == 0
    assert list(Calibration.read(tmp_path / "calibration.toml").detectors) == ["touch"]


def test_spark_must_be_told_the_order_of_arrival(tmp_path: Path) -> None:
    result = calibrate(make(tmp_path, ('kind = "local"\n', ""), ('arrival = "seq"\n', "")))
    assert result.exit_code == 2
    assert "set arrival to the column that gives the order of arrival" in result.stderr


def test_a_source_without_an_end_is_no_recording(tmp_path: Path) -> None:
    socket = 'format = "socket"\nport = 9\ncolumns = { ts = "long", type = "string", key = "long" }'
    result = calibrate(
        make(
            tmp_path, ('kind = "local"\n', ""), ('arrival = "seq"\n', ""),
            ('format = "parquet"\npath = "events/"', socket),
        )
    )  # fmt: skip
    assert result.exit_code == 2
    assert (
        "calibration reads a recording several times, and this source has no end" in result.stderr
    )


def test_on_spark(folder: Path, tmp_path: Path, spark: SparkSession) -> None:  # noqa: ARG001
    """One slot finds what one process finds; one run will do for the first level."""
    slots = ('kind = "local"', 'master = "local[2]"\nslots = 1')
    file = make(tmp_path, SECOND_LEVEL, slots)
    result = calibrate(file, "--max-runs", "1")
    assert result.exit_code == 0, result.stderr
    assert "run 1: 6,000 events" in result.stderr
    assert "allow more runs with --max-runs" in result.stderr
    found, local = (Calibration.read(each / "calibration.toml") for each in (tmp_path, folder))
    assert found.detectors["touch"].jitter == local.detectors["touch"].jitter
    assert found.detectors["touch"].slack == local.detectors["touch"].slack


# The key of the job file


def with_key(folder: Path, *more: tuple[str, str]) -> Path:
    line = 'attenuation = 0.3\ncalibration = "calibration.toml"'
    return make(folder, SECOND_LEVEL, ("attenuation = 0.3", line), *more)


def test_check_shows_it(folder: Path) -> None:
    result = run("--check", with_key(folder))
    assert result.exit_code == 0, result.stderr
    assert "calibration.toml" in result.stdout
    make(folder, SECOND_LEVEL)


def test_a_file_that_is_not_there_is_named_with_the_line(tmp_path: Path) -> None:
    result = run("--check", with_key(tmp_path))
    assert result.exit_code == 2
    assert "[detect] calibration: expected a calibration file at" in result.stderr
    assert "line 12" in result.stderr
    assert calibrate("--quiet", tmp_path / "job.toml").exit_code == 0
    assert run("--check", tmp_path / "job.toml").exit_code == 0


def test_a_configuration_of_another_job_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "calibration.toml").write_bytes((folder / "calibration.toml").read_bytes())
    result = run("--check", with_key(tmp_path, ('within = "30ms"', 'within = "31ms"')))
    assert result.exit_code == 2
    assert "the calibration was made for another hierarchy" in result.stderr
    assert "--from" in result.stderr


def test_a_restart_may_have_another(folder: Path, tmp_path: Path) -> None:
    """What the checkpoint has learned goes first, so nothing rests on the file any more."""
    (tmp_path / "calibration.toml").write_bytes((folder / "calibration.toml").read_bytes())
    open_end = ('by = "key"\nbatch_rows', 'by = "key"\nend = "open"\nbatch_rows')
    file = make(tmp_path, SECOND_LEVEL, open_end)
    assert run("--quiet", file).exit_code == 0
    with_key(tmp_path, open_end)
    result = run("--quiet", file)
    assert result.exit_code == 0, result.stderr
