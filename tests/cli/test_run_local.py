"""`betimes run` in one process: the right changes, whatever the format and whatever happens."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from betimes import fold
from betimes.cli import app
from betimes.host.folder import SinkFolder
from betimes.testing import oracle
from tests.cli.jobs import (
    EXAMPLE,
    ROWS,
    changes,
    events,
    make,
    process,
    run,
    stream,
    touches,
    write_events,
    written,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_the_sink_holds_what_the_oracle_finds(folder: Path) -> None:
    result = run(make(folder))
    assert result.exit_code == 0, result.stderr
    found = changes(written(folder / "out"))
    assert fold(found) == oracle(touches(), events(stream()), by="key")
    assert {change.status for change in found} == {"provisional", "final"}
    assert f"{ROWS:,} in 13 batches" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("source", ["parquet", "csv", "json"])
@pytest.mark.parametrize("sink", ["csv", "json"])
def test_formats_make_no_difference(folder: Path, source: str, sink: str) -> None:
    write_events(folder / "events", format=source)
    replaced = [
        ('format = "parquet"\npath = "events', f'format = "{source}"\npath = "events'),
        ('format = "parquet"\npath = "out', f'format = "{sink}"\npath = "out'),
    ]
    assert run("--quiet", make(folder, *replaced)).exit_code == 0
    found = changes(written(folder / "out", sink))
    assert fold(found) == oracle(touches(), events(stream()), by="key")


def test_final_results_are_only_inserts_and_complete(folder: Path) -> None:
    final = ('"out/"', '"out/"\nresults = "final"')
    file = make(folder, final, ("attenuation = 0.3", 'slack = "200ms"'))
    assert run("--quiet", file).exit_code == 0
    found = changes(written(folder / "out"))
    assert {(change.change_type, change.status) for change in found} == {("insert", "final")}
    assert fold(found) == oracle(touches(), events(stream()), by="key")


def test_rows_that_are_no_events_are_reported(folder: Path) -> None:
    table = stream()
    times = table["ts"].to_pylist()
    times[7], times[700] = None, -5
    write_events(folder / "events", table.set_column(0, "ts", pa.array(times, pa.int64())))
    result = run(make(folder))
    assert result.exit_code == 0, result.stderr
    rows = written(folder / "out")
    bad = [row for row in rows if row["type"] == "rejected"]
    assert [row["cause"] for row in bad] == ["the time is missing", "the time is negative"]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row[name] for row in bad for name in ("ts", "detected_at", "slack")} == {None}
    assert "rejected     2" in result.stderr


def test_a_single_file_without_arrival_or_key(folder: Path) -> None:
    pq.write_table(stream(), folder / "events.parquet")
    replaced = [('"events/"', '"events.parquet"'), ('arrival = "seq"\nby = "key"\n', "")]
    assert run("--quiet", make(folder, *replaced)).exit_code == 0
    found = changes(written(folder / "out"))
    assert fold(found) == oracle(touches(), events(stream()))


def test_timestamps_and_decimals_can_be_kept(folder: Path) -> None:
    table = stream(500)
    moments = table["ts"].cast(pa.timestamp("us"))
    table = table.set_column(0, "ts", moments).append_column("copy", moments)
    table = table.append_column("price", table["value"].cast(pa.decimal128(21, 2)))
    write_events(folder / "events", table)
    result = run("--quiet", make(folder, ("batch_rows = 500", "batch_rows = 100")))
    assert result.exit_code == 0, result.stderr


def test_console_shows_each_change_on_a_line(folder: Path) -> None:
    result = run(
        "--quiet", make(folder, ('format = "parquet"\npath = "out/"', 'format = "console"'))
    )
    lines = result.stdout.splitlines()
    assert {line[0] for line in lines} >= {"+", "="}
    assert any(line.startswith("+ provisional touch at ") for line in lines)


def test_a_hierarchy_from_beside_the_job_file(folder: Path) -> None:
    """The example: a detector in Python upon a pattern of the job file."""
    for name in ("touches.toml", "touches.py"):
        shutil.copy(EXAMPLE.parent / name, folder)
    result = run(folder / "touches.toml")
    assert result.exit_code == 0, result.stderr
    rows = written(folder / "changes", "csv")
    assert {row["type"] for row in rows} == {"touch", "pair"}
    assert any(row["change_type"] == "delete" for row in rows)


# Stopping and going on


def test_an_open_stream_goes_on_with_new_files(folder: Path) -> None:
    file = make(folder, ('by = "key"\nbatch', 'by = "key"\nend = "open"\nbatch'))
    late = folder / "events" / "part-2.parquet"
    late.rename(folder / "part-2.parquet")
    first = run(file)
    assert first.exit_code == 0
    assert "more may come" in first.stderr
    (folder / "part-2.parquet").rename(late)
    again = run(file)
    assert again.exit_code == 0
    assert "resuming after 4,000 rows" in again.stderr
    file.write_text(file.read_text().replace('end = "open"', 'end = "advance"'))
    assert run(file).exit_code == 0
    found = changes(written(folder / "out"))
    assert fold(found) == oracle(touches(), events(stream()), by="key")


def test_what_has_ended_is_not_gone_on_with(folder: Path) -> None:
    file = make(folder)
    assert run(file).exit_code == 0
    before = written(folder / "out")
    again = run(file)
    assert again.exit_code == 1
    assert "has ended" in again.stderr
    assert "--fresh" in again.stderr
    assert run("--fresh", file).exit_code == 0
    assert written(folder / "out") == before


def test_a_checkpoint_of_another_job_is_refused(folder: Path) -> None:
    file = make(folder, ('by = "key"\nbatch', 'by = "key"\nend = "open"\nbatch'))
    assert run(file).exit_code == 0
    file.write_text(file.read_text().replace('"500ms"', '"400ms"'))
    result = run(file)
    assert result.exit_code == 1
    assert "belongs to a job with different settings" in result.stderr
    assert "detector 'touch': within was 500 ms, is 400 ms" in result.stderr


def test_files_that_changed_under_a_checkpoint_are_noticed(folder: Path) -> None:
    file = make(folder, ('by = "key"\nbatch', 'by = "key"\nend = "open"\nbatch'))
    assert run(file).exit_code == 0
    shutil.copy(folder / "events" / "part-1.parquet", folder / "events" / "part-0b.parquet")
    result = run(file)
    assert result.exit_code == 1
    assert "no others before 'part-2.parquet'" in result.stderr


def test_output_of_an_unknown_run_is_not_overwritten(folder: Path) -> None:
    file = make(folder, ('checkpoint = "checkpoint/"\n', ""))
    assert run(file).exit_code == 0
    result = run(file)
    assert result.exit_code == 2
    assert "expected an empty folder" in result.stderr


def test_a_new_checkpoint_does_not_take_over_the_sink_of_an_old_one(folder: Path) -> None:
    file = make(folder, ('by = "key"\nbatch', 'by = "key"\nend = "open"\nbatch'))
    assert run(file).exit_code == 0
    before = snapshot(folder / "out")
    shutil.rmtree(folder / "checkpoint")
    result = run(file)
    assert result.exit_code == 2
    assert "belongs to another job" in result.stderr
    assert snapshot(folder / "out") == before
    other = make(folder, ("checkpoint/", "other/"))
    assert "belongs to another job" in run(other).stderr
    assert run("--fresh", other).exit_code == 0


@pytest.mark.parametrize("kept", ['checkpoint = "checkpoint/"\n', ""], ids=["checkpoint", "none"])
@pytest.mark.parametrize(
    ("kind", "fresh"), [("local", "--fresh"), ("local", ""), ("spark", "--fresh")]
)
def test_the_sink_of_a_running_job_is_left_alone(
    folder: Path, kept: str, kind: str, fresh: str
) -> None:
    """On Spark, `write` refuses it: see `tests/spark/test_refusals.py`."""
    assert run(make(folder, ('checkpoint = "checkpoint/"\n', ""))).exit_code == 0
    before = snapshot(folder / "out")
    running = SinkFolder(folder / "out")
    running.acquire()
    here = ('kind = "local"', f'kind = "{kind}"')
    job = make(folder, ('checkpoint = "checkpoint/"\n', kept), here)
    result = run(*fresh.split(), job)
    assert result.exit_code == 1
    assert "another run is using the sink" in result.stderr
    assert snapshot(folder / "out") == before
    running.release()


def test_restarts_do_not_show_in_the_summary(folder: Path) -> None:
    def figures(result: Result) -> list[str]:
        rows = ("rows", "found", "taken back", "late", "final after")
        lines = [line for line in result.stderr.splitlines() if line.startswith(rows)]
        return [line.split(" in ")[0].strip() for line in lines]

    rows = stream().to_pylist()
    for row in rows[2_000::400]:
        row["ts"] = 5  # much later than anyone waits
    write_events(folder / "events", pa.Table.from_pylist(rows))
    late = ("attenuation = 0.3", 'attenuation = 0.3\nretention = "1ms"')
    at_once = run(make(folder, late, ("checkpoint/", "at-once/"), ("out/", "at-once-out/")))
    for number in (1, 2):
        (folder / f"events/part-{number}.parquet").rename(folder / f"part-{number}.parquet")
    file = make(folder, late, ('by = "key"\nbatch', 'by = "key"\nend = "open"\nbatch'))
    for number in (1, 2):
        assert run(file).exit_code == 0
        assert run(file).exit_code == 0
        (folder / f"part-{number}.parquet").rename(folder / f"events/part-{number}.parquet")
    file.write_text(file.read_text().replace('end = "open"', 'end = "advance"'))
    expected, found = figures(at_once), figures(run(file))
    assert found == expected
    assert len(found) == 5
    assert not any(line.split() == ["late", "0"] for line in expected)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run("--quiet", make(folder)).exit_code == 0
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a sink, byte by byte."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("_")
    }


def run_through_kills(folder: Path, file: Path, rng: random.Random) -> None:
    """Killed inside a batch, again and again; the last run is left alone."""
    kills = 0
    for _ in range(4):
        running = process("--quiet", file)
        batches = len(list((folder / "out").glob("batch=*"))) if (folder / "out").exists() else 0
        until = time.monotonic() + 30
        wanted = batches + rng.randint(1, 3)
        while running.poll() is None and time.monotonic() < until:
            if len(list((folder / "out").glob("batch=*"))) >= wanted:
                break
            time.sleep(0.001)
        time.sleep(rng.random() * 0.02)
        running.kill()
        running.communicate()
        kills += running.returncode == -signal.SIGKILL
        if running.returncode == 0:
            break
    assert kills >= 2
    result = run("--quiet", file)
    assert result.exit_code == 0 or "has ended" in result.stderr


@pytest.mark.parametrize("every", [1, 4])
def test_killed_at_any_point_the_sink_ends_up_the_same(
    folder: Path, undisturbed: Path, every: int
) -> None:
    file = make(folder, ("[sink]", f"checkpoint_every = {every}\n[sink]"))
    run_through_kills(folder, file, random.Random(every))
    assert snapshot(folder / "out") == snapshot(undisturbed / "out")


WINDOWS = """
[[detect.window]]
on = ["near", "hit"]
emits = "five"
by = "key"
count = 5
slide = 2
aggregate = { mean = "avg(value)" }
instances = 2

[[detect.window]]
on = "five"
emits = "visit"
by = "key"
gap = "30ms"
aggregate = { n = "count()", most = "max(mean)" }

[engine]
"""


def test_windows_killed_at_any_point_end_up_the_same(tmp_path: Path) -> None:
    still, killed = tmp_path / "still", tmp_path / "killed"
    files = []
    for each in (still, killed):
        each.mkdir()
        files.append(
            make(each, ("[engine]\n", WINDOWS), ("[sink]", "checkpoint_every = 2\n[sink]"))
        )
    assert run("--quiet", files[0]).exit_code == 0
    run_through_kills(killed, files[1], random.Random(2))
    assert snapshot(killed / "out") == snapshot(still / "out")
    kinds = {row["type"] for row in written(still / "out")}
    assert kinds == {"touch", "five", "visit"}


SLOWLY = (
    'format = "parquet"\npath = "events/"\narrival = "seq"',
    'format = "simulate"\nrows = 4000\nrate = 2000',
)


def wait_for_a_batch(folder: Path) -> None:
    until = time.monotonic() + 30
    while not list((folder / "out").glob("batch=*")) and time.monotonic() < until:
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_a_run_between_batches(folder: Path, number: int, code: int) -> None:
    file = make(folder, SLOWLY)
    running = process(file)
    wait_for_a_batch(folder)
    running.send_signal(number)
    _, said = running.communicate(timeout=30)
    assert running.returncode == code, said
    assert "resume with: betimes run" in said
    file.write_text(file.read_text().replace("rate = 2000", ""))
    again = run(file)
    assert again.exit_code == 0
    assert "resuming after" in again.stderr
    assert "4,000 in 9 batches" in again.stderr


def test_two_runs_do_not_share_a_checkpoint(folder: Path) -> None:
    file = make(folder, SLOWLY)
    running = process("--quiet", file)
    wait_for_a_batch(folder)
    result = run(file)
    running.kill()
    running.communicate()
    assert result.exit_code == 1
    assert "another run is using the checkpoint" in result.stderr


def test_following_takes_new_files_as_they_come(folder: Path) -> None:
    file = make(folder)
    late = folder / "events" / "part-2.parquet"
    late.rename(folder / "part-2.parquet")
    running = process("--follow", file)
    wait_for_a_batch(folder)
    (folder / "part-2.parquet").rename(late)
    until = time.monotonic() + 30
    while not (folder / "out" / "batch=11").exists() and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert f"{ROWS:,} in 12 batches" in said


def test_a_source_that_falls_silent_settles(folder: Path) -> None:
    file = make(folder, ('kind = "local"', 'kind = "local"\nidle = "300ms"'))
    running = process("--follow", file)
    until = time.monotonic() + 60
    while not (folder / "out" / "batch=12").exists() and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130, said
    found = changes(written(folder / "out"))
    final = {change.match_id for change in found if change.status == "final"}
    standing = {change.match_id for change in found if change.change_type == "insert"}
    standing -= {change.match_id for change in found if change.change_type == "delete"}
    assert final == standing
    assert fold(found) == oracle(touches(), events(stream()), by="key")


def test_the_match_of_the_examples_runs_and_is_calibrated(folder: Path) -> None:
    """As the README says: simulate, run, calibrate."""
    job = folder / "examples" / "job" / "match.toml"
    job.parent.mkdir(parents=True)
    shutil.copy(EXAMPLE.with_name("match.toml"), job)
    made = CliRunner().invoke(app, ["simulate", "soccer", str(folder / "match"), "--seconds", "2"])
    assert made.exit_code == 0, made.stderr
    result = run(job)
    assert result.exit_code == 0, result.stderr
    found = changes(written(folder / "match-changes"))
    assert any(change.type == "hit" and change.status == "final" for change in found)
    calibrated = CliRunner().invoke(app, ["calibrate", str(job)])
    assert calibrated.exit_code == 0, calibrated.stderr
    assert 'calibration = "calibration.toml"' in calibrated.stdout + calibrated.stderr
    assert "slack" in (job.parent / "calibration.toml").read_text()


def in_milliseconds(folder: Path) -> None:
    """The stream of the tests, in milliseconds of today."""
    rows = stream(600)
    ts = pa.array(1_777_636_800_000 + rows["ts"].to_numpy())
    write_events(folder / "events", rows.set_column(0, "ts", ts))


def test_times_count_the_unit_of_the_job(tmp_path: Path) -> None:
    in_milliseconds(tmp_path)
    unit = ('by = "key"\nbatch', 'by = "key"\nunit = "ms"\nbatch')
    job = make(tmp_path, unit, ("500ms", "500s"))
    assert "unit ms" in run("--check", job).stdout
    done = run(job)
    assert done.exit_code == 0
    assert "unit=" not in done.stderr
    found = written(tmp_path / "out")
    assert found
    assert all(row["ts"] > 1_777_636_800_000_000 for row in found)


def test_times_of_another_unit_draw_a_warning(tmp_path: Path) -> None:
    in_milliseconds(tmp_path)
    assert run(make(tmp_path)).stderr.count('set unit="ms"') == 1
    wrong = run(make(tmp_path, ('by = "key"\nbatch', 'by = "key"\nunit = "m"\nbatch')))
    assert wrong.exit_code == 2
    assert "expected one of s, ms, us, ns, got 'm'" in wrong.stderr
