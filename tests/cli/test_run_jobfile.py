"""Job files, good and bad: what is wrong is named, with where it is and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from betimes.cli.jobs.jobfile.conflicts import read_job
from betimes.cli.jobs.jobfile.hierarchies import hierarchy_of
from betimes.cli.jobs.jobfile.tables import (
    DETECT_KEYS,
    DETECTOR_KEYS,
    ELSEWHERE,
    ENGINE_KEYS,
    OPTION_READERS,
    PATTERN_KEYS,
    SINK_KEYS,
    SOURCE_KEYS,
    WINDOW_KEYS,
)
from betimes.engine import Zone
from betimes.engine.options import OPTIONS
from betimes.engine.own import Own
from tests.cli.jobs import EXAMPLE, make, run

SOURCE = 'format = "parquet"\npath = "events/"'
SINK = 'format = "parquet"\npath = "out/"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'path = "events/"',
            'pth = "events/"',
            "line 4, [source] pth: unknown key; did you mean 'path'?",
        ),
        ("[detect]", "[detekt]", "line 9, [detekt]: unknown table; did you mean 'detect'?"),
        (
            "[engine]",
            "[engine]\ncolour = 1",
            "[engine] colour: unknown key; known are kind, master",
        ),
        (
            "[engine]",
            '[engine]\nlate = "side"',
            "[engine] late: unknown key; it is a key of [detect]",
        ),
        (
            'emits = "touch"',
            'emit = "touch"',
            "[[detect.pattern]] 1 emit: unknown key; did you mean 'emits'?",
        ),
        ('emits = "touch"', "", "[[detect.pattern]] 1: the key 'emits' is missing"),
        (SOURCE, 'format = "parket"', "simulate, got 'parket'; did you mean 'parquet'?"),
        (SOURCE, 'format = "parquet"', "format 'parquet' needs the key 'path'"),
        (
            SOURCE,
            'format = "simulate"\npath = "x"',
            "[source] path: format 'simulate' has no such key",
        ),
        (SOURCE, 'format = "parquet"\npath = "nowhere/"', "expected a file or a folder at"),
        (SOURCE, 'format = "csv"\npath = "events/"', "part-0.parquet cannot be read"),
        (
            "batch_rows = 500",
            "batch_rows = 0",
            "[source] batch_rows: expected a whole number of 1 or more, got 0",
        ),
        (
            SOURCE,
            f'{SOURCE}\nsource = "kez"',
            "[source] source: the source has no column 'kez'; did",
        ),
        ("[source]", "rows = 5\n[source]", "line 2, rows: this key is above all tables; put it"),
        ("batch_rows = 500", "batch_rows = true", "expected a whole number of 1 or more, got True"),
        (
            "batch_rows = 500",
            'time = "tss"',
            "[source] time: the source has no column 'tss'; did you mean 'ts'?",
        ),
        ("batch_rows = 500", 'type = "key"', "expected text in the column 'key', got int64"),
        (
            "batch_rows = 500",
            '[source.columns]\nv = "lang"',
            "v: unknown type 'lang'; did you mean 'long'?",
        ),
        (
            "attenuation = 0.3",
            "attenuation = 1.5",
            "expected 'adaptive' or a number from 0 to 1, got 1.5",
        ),
        (
            "attenuation = 0.3",
            "atenuation = 0.3",
            "line 11, [detect] atenuation: unknown key; did you mean 'attenuation'?",
        ),
        ("attenuation = 0.3", 'slack = "biggest"', "expected one of largest, decaying, quantile"),
        ("attenuation = 0.3", 'slack = "15 parsec"', "or a fixed duration such as '150ms'"),
        ("attenuation = 0.3", 'decay = "soon"', "[detect] decay: expected a duration"),
        ("attenuation = 0.3", 'min_slack = "2s"\nmax_slack = "1s"', "min_slack <= max_slack"),
        ("attenuation = 0.3", 'snapshots = "often"', "[detect] snapshots: expected 'adaptive'"),
        ("attenuation = 0.3", "clock = []", "TOML"),
        (
            "attenuation = 0.3",
            "inputs = [1]",
            "[detect] inputs: expected a string or a list of strings",
        ),
        ("attenuation = 0.3", 'hierarchy = "nothing"', 'expected "module:name"'),
        (
            "attenuation = 0.3",
            'hierarchy = "no_such_module:x"',
            "neither no_such_module.py next to the job file",
        ),
        (
            "attenuation = 0.3",
            'hierarchy = "math:pi"',
            "to be a Hierarchy, or a function that returns one, got a float",
        ),
        (
            "attenuation = 0.3",
            'hierarchy = "math:sqroot"',
            "math has no 'sqroot'; did you mean 'sqrt'?",
        ),
        ('"near !not_near hit"', '"near !( hit"', "^"),
        ('within = "500ms"', 'within = "500"', "[[detect.pattern]] 1 within: expected a duration"),
        ('within = "500ms"', 'timeouts = "gone"', "expected within"),
        (
            'by = "key"\nwithin',
            'by = "kay"\nwithin',
            "line 15, [[detect.pattern]] 1 by: detector 'touch' has by='kay', but the source has "
            "no such column; did you mean 'key'?",
        ),
        (
            'within = "500ms"',
            'within = "500ms"\nwhere = "hit.valu > near.value"',
            "line 17, [[detect.pattern]] 1 where: cannot use where",
        ),
        (
            'emits = "touch"',
            'emits = "touch"\n[detect.pattern.define]\nhit = "type == \'hit\' and valu > 3"',
            "the source has no column 'valu'; did you mean 'value'?",
        ),
        (
            'emits = "touch"',
            'emits = "touch"\nselect = { v = "near.valu" }',
            "line 18, [[detect.pattern]] 1 select: cannot use select['v']",
        ),
        (
            "attenuation = 0.3",
            'inputs = ["ball", "nere", "not_near", "hit"]',
            "'touch' subscribes to 'near', which no detector publishes and which is not among",
        ),
        ('[engine]\nkind = "local"', '[engine]\nkind = "lokal"', "did you mean 'local'?"),
        (
            'kind = "local"',
            'kind = "local"\nslots = 4',
            '[engine] slots: kind = "local" runs in one process',
        ),
        (SINK, 'format = "delta"\npath = "out/"', '[sink] format: this needs kind = "spark"'),
        (
            SINK,
            'format = "console"\npath = "out/"',
            "[sink] path: format 'console' has no such key",
        ),
        (SINK, 'format = "parquet"\npath = "events/"', "the output would become input"),
        (
            SINK,
            SINK + '\nresults = "finel"',
            "provisional, final, got 'finel'; did you mean 'final'?",
        ),
        ("[sink]\n" + SINK, "", "[sink]: the table is missing"),
        (
            "attenuation = 0.3",
            "zone = { low = 0.9, high = 0.8 }",
            "[detect] zone: expected a zone that makes sense, got {'low': 0.9, 'high': 0.8}",
        ),
        ("attenuation = 0.3", "zone = 0.8", "[detect] zone: expected a table such as { low = 0.8"),
        ("attenuation = 0.3", "zone = { lo = 0.8 }", "unknown option 'lo'; did you mean 'low'?"),
        (
            "[engine]\n",
            "[detect.detector.tuch]\nattenuation = 1\n\n[engine]\n",
            "[detect.detector.tuch]: expected the name of a detector, got 'tuch'; there are",
        ),
        (
            "[engine]\n",
            "[detect.detector.touch]\natenuation = 1\n\n[engine]\n",
            "[detect.detector.touch] atenuation: unknown key; did you mean 'attenuation'?",
        ),
        (
            "[engine]\n",
            "[detect.detector.touch]\nattenuation = 2\n\n[engine]\n",
            "[detect.detector.touch] attenuation: expected 'adaptive' or a number from 0 to 1",
        ),
        (
            "[engine]\n",
            '[detect.detector.touch]\nclock = "touch"\n\n[engine]\n',
            "detector 'touch' has clock=['touch'], but it does not see 'touch'",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    result = run(make(tmp_path, (old, new)))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "For help: betimes run --help" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        (
            [('kind = "local"', "slots = 4"), ('by = "key"\nbatch', "batch")],
            "name the column with by in [source]",
        ),
        (
            [("attenuation = 0.3", 'order = "key"'), ('by = "key"\nbatch', "batch")],
            "needs by in [source]",
        ),
        (
            [("attenuation = 0.3", 'late = "repair"'), (SINK, SINK + '\nresults = "final"')],
            "may take back final rows",
        ),
        ([(SOURCE, 'format = "kafka"\nservers = "s:1"')], "format 'kafka' needs the key 'topic'"),
    ],
)
def test_what_does_not_go_together_is_named(
    tmp_path: Path, replaced: list[tuple[str, str]], message: str
) -> None:
    result = run("--check", make(tmp_path, *replaced))
    assert result.exit_code == 2
    assert message in result.stderr


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    file = make(tmp_path, ('path = "events/"', "pfad = 1"), ("0.3", "7"), ('"local"', '"x"'))
    result = run(file)
    assert "4 problems in" in result.stderr
    for part in ("[source] pfad", "needs the key 'path'", "[detect] attenuation", "[engine] kind"):
        assert part in result.stderr


def test_problems_are_told_in_the_order_of_lines(tmp_path: Path) -> None:
    """Whatever finds them: tables, patterns, or the columns of the source."""
    file = make(
        tmp_path, ("batch_rows = 500", 'time = "tss"'), ('"near !not_near hit"', '"near !( hit"'),
        ('kind = "local"', 'kind = "local"\nslots = 4'),
    )  # fmt: skip
    result = run("--check", file)
    assert "3 problems in" in result.stderr
    lines = [int(number) for number in re.findall(r"^  line (\d+)", result.stderr, re.MULTILINE)]
    assert lines == [7, 14, 21]


def test_a_type_that_is_nearly_what_another_detector_emits_is_hinted_at(tmp_path: Path) -> None:
    more = '\n[[detect.pattern]]\nmatch = "tuch hit"\nwithin = "1s"\nemits = "pair"'
    result = run("--check", make(tmp_path, ('emits = "touch"', f'emits = "touch"{more}')))
    assert result.exit_code == 0
    hint = "hint: 'pair' reads 'tuch', which no detector emits; did you mean 'touch'?"
    assert hint in " ".join(result.stderr.split())


def test_a_type_that_a_simulated_stream_does_not_have_is_hinted_at(tmp_path: Path) -> None:
    source = SOURCE + '\narrival = "seq"'
    simulated = make(tmp_path, (source, 'format = "simulate"'), ("not_near hit", "not_near hti"))
    result = run("--check", simulated)
    assert result.exit_code == 0
    hint = "hint: 'touch' reads 'hti', which never comes; did you mean 'hit'?"
    assert hint in " ".join(result.stderr.split())


def test_types_that_files_nearly_have_are_hinted_at(tmp_path: Path) -> None:
    misspelled = [("not_near hit", "not_near hitt"), ('clock = "ball"', 'clock = "bal"')]
    result = run("--check", make(tmp_path, *misspelled))
    assert result.exit_code == 0
    said, why = " ".join(result.stderr.split()), "which the first rows do not have; did you mean"
    assert f"hint: the clock follows 'bal', {why} 'ball'?" in said
    assert f"hint: 'touch' reads 'hitt', {why} 'hit'?" in said
    assert "hint" not in run("--check", make(tmp_path)).stderr


def test_a_job_that_looks_for_nothing(tmp_path: Path) -> None:
    file = make(tmp_path)
    text = file.read_text()
    file.write_text(text[: text.index("[[detect")] + text[text.index("[engine]") :])
    result = run(file)
    assert result.exit_code == 2
    assert "nothing to detect" in result.stderr


def test_the_place_in_a_pattern_is_pointed_at(tmp_path: Path) -> None:
    result = run(make(tmp_path, ("near !not_near hit", "near !not_near) hit")))
    lines = result.stderr.splitlines()
    pointer = next(number for number, line in enumerate(lines) if line.strip().strip("^") == "")
    column = lines[pointer].index("^")
    assert lines[pointer - 1][column] == ")"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[source\n", "job.toml' to be TOML"), (b"\xff", "UTF-8"), (None, "No such file")],
)
def test_what_is_no_job_file(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "job.toml"
    if content is not None:
        file.write_bytes(content)
    result = run(file)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_module_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken_app.py").write_text("1 / 0")
    result = run(make(tmp_path, ("attenuation = 0.3", 'hierarchy = "broken_app:x"')))
    assert result.exit_code == 2
    assert "broken_app cannot be imported: ZeroDivisionError" in result.stderr


def test_check_says_what_would_run_and_runs_nothing(tmp_path: Path) -> None:
    result = run("--check", make(tmp_path))
    assert result.exit_code == 0, result.stderr
    for part in (
        "3 parquet files at",
        "ts, type, key, value, seq",
        "level 1  touch: hit, near, not_near -> touch by key",
        "local: in this process",
        "out/batch=N",
    ):
        assert part in result.stdout
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "checkpoint").exists()


def test_the_example_is_right() -> None:
    result = run("--check", EXAMPLE)
    assert result.exit_code == 0, result.stderr
    assert "level 2  Pair: touch -> pair" in result.stdout


def test_help_teaches() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for part in ("[[detect.pattern]]", "exit code 130", "betimes run --check job.toml"):
        assert part in result.stdout


def test_a_detector_has_its_own_settings(tmp_path: Path) -> None:
    own = '[detect.detector.touch]\nclock = ["ball", "near"]\nslack = "90ms"\nattenuation = 1\n'
    own += 'margin = 1.5\nretraction = "full"\nsnapshots = 7\n'
    zone = 'attenuation = 0.3\nzone = { low = 0.5, high = 0.6, span = "250ms" }'
    file = make(tmp_path, ("[engine]\n", own + "[engine]\n"), ("attenuation = 0.3", zone))
    job = read_job(file)
    (node,) = hierarchy_of(job)
    assert node.own == Own(
        clock=("ball", "near"), slack="90ms", attenuation=1, margin=1.5, retraction="full",
        snapshots=7,
    )  # fmt: skip
    assert job.options.zone == Zone(low=0.5, high=0.6, span=0.25)
    assert run(file).exit_code == 0


def test_every_option_of_an_engine_is_a_key_or_has_a_reason() -> None:
    assert sorted([*OPTION_READERS, *ELSEWHERE]) == sorted(OPTIONS)


def test_every_key_is_in_the_reference() -> None:
    reference = (EXAMPLE.parents[2] / "docs" / "running.md").read_text("utf-8")
    tables = (
        SOURCE_KEYS, DETECT_KEYS, DETECTOR_KEYS, PATTERN_KEYS, WINDOW_KEYS, ENGINE_KEYS, SINK_KEYS,
    )  # fmt: skip
    for table in tables:
        for key in table:
            assert re.search(rf"`(\[\w+\.)?{key}\]?`", reference), key


def test_paths_are_shown_without_detours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make(tmp_path, ('path = "out/"', 'path = "deep/er/../../out/"'))
    monkeypatch.chdir(tmp_path)
    result = run("--check", file.name)
    assert "sink    parquet at out/batch=N" in result.stdout
    assert run("--quiet", file.name).exit_code == 0
    (tmp_path / "checkpoint" / "local-run").unlink()
    again = run("--quiet", file.name)
    assert f"the sink at {tmp_path / 'out'} belongs to another job" in again.stderr
