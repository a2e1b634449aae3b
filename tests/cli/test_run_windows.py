"""Windows in job files."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import Engine, Hierarchy, aggregate, fold, window, windowed
from betimes.cli.jobs.jobfile.conflicts import read_job
from betimes.cli.jobs.jobfile.hierarchies import hierarchy_of
from betimes.cli.jobs.jobfile.keys import JobError
from betimes.model import EventBatch
from tests.cli.jobs import make, run, stream

WINDOW = """
[[detect.window]]
on = ["near", "hit"]
emits = "busy"
by = "key"
time = "2s"
slide = "1s"
aggregate = { n = "count()", high = "max(value)" }
"""
PATTERN = """[[detect.pattern]]
match = "near !not_near hit"
by = "key"
within = "500ms"
emits = "touch"
"""


def hierarchies(folder: Path, table: str) -> Hierarchy:
    return hierarchy_of(read_job(make(folder, (PATTERN, table))))


def test_a_window_of_a_job_file_is_that_of_python(tmp_path: Path) -> None:
    job = hierarchies(tmp_path, WINDOW)
    python = Hierarchy(clock="ball")
    python.add(
        windowed(aggregate(n="count()", high="max(value)"), window(time="2s", slide="1s")),
        on=("near", "hit"), emits="busy", by="key",
    )  # fmt: skip
    assert job.identity() == python.identity()
    events = EventBatch.from_arrow(stream(2_000))
    found = [
        fold([*engine.feed(events), *engine.finish()]) for engine in map(Engine, (job, python))
    ]
    assert found[0] == found[1]
    assert len(found[0]) > 10


def test_a_function_comes_from_a_module(tmp_path: Path) -> None:
    (tmp_path / "summaries.py").write_text("def size(table):\n    return {'n': table.num_rows}\n")
    table = WINDOW.replace('{ n = "count()", high = "max(value)" }', "")
    table = table.replace("aggregate = ", 'function = "summaries:size"').replace("2s", "5s")
    file = make(tmp_path, (PATTERN, table))
    result = run(file)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'time = "2s"',
            "",
            "1: expected a window to have exactly one of count, time, gap and open",
        ),
        ('slide = "1s"', 'slide = "3s"', "expected slide to be at most the size of the window"),
        ('slide = "1s"', 'sliding = "1s"', "sliding: unknown key; did you mean 'slide'?"),
        ("max(value)", "maximum(value)", "the functions are avg, count"),
        ('{ n = "count()", high = "max(value)" }', "{}", "expected aggregates by name, as in"),
        ('emits = "busy"', 'emits = "busy"\nfunction = "a:b"', "either the table aggregate or"),
        ("aggregate = {", 'function = "nowhere:f"\nx = {', "x: unknown key"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(JobError) as error:
        hierarchies(tmp_path, WINDOW.replace(old, new))
    assert message in str(error.value)
