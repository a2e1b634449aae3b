"""Configurations as files: what is written is read, and what cannot be used is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.calibration import calibrate
from betimes.configuration.files import dumps, loads
from betimes.configuration.value import RunOutcome, Setting, SubDelays
from betimes.engine import Calibration, CalibrationError, Engine, Hierarchy
from betimes.model import Event
from betimes.model.identity import WHOLE, Identity, subject
from tests.engine.material import Count, share

TIMES = st.integers(0, 10**13)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
BY_NAME = st.dictionaries(NAMES, TIMES, max_size=3)
SETTINGS = st.builds(
    Setting,
    st.integers(1, 20),
    TIMES,
    st.none() | NAMES,
    BY_NAME,
    BY_NAME,
    st.dictionaries(NAMES, st.builds(SubDelays, TIMES, TIMES, TIMES), max_size=3),
)
RUNS = st.builds(
    RunOutcome,
    st.integers(0, 10**9),
    st.integers(0, 10**6),
    st.dictionaries(NAMES, st.tuples(TIMES, TIMES), max_size=2),
)
FACTS = st.dictionaries(NAMES, NAMES, min_size=1, max_size=3)
CALIBRATIONS = st.builds(
    lambda facts, settings, *more: Calibration(
        Identity({WHOLE: facts} | {subject(name): facts for name in settings}), settings, *more
    ),
    FACTS,
    st.dictionaries(NAMES, SETTINGS, min_size=1, max_size=3),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(RUNS, max_size=2).map(tuple),
    st.lists(NAMES, max_size=2).map(tuple),
)


@given(CALIBRATIONS)
@share(0.4)
def test_what_is_written_is_read(calibration: Calibration) -> None:
    assert loads(dumps(calibration), "here") == calibration


def pairs() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("pair", 2), on="B", emits="pair", name="Pairs")
    hierarchy.add(Count("four", 2), on="pair", emits="four", name="Fours")
    return hierarchy


STREAM = [
    Event(type, ts, {"k": 0})
    for type, ts in [("A", 0), ("A", 9), ("B", 5), ("A", 10), ("B", 8), ("A", 30), ("A", 50)]
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "calibration.toml"
    calibrate(pairs(), STREAM, measured_on="a small stream").write(file)
    return file


def test_an_engine_takes_the_file(file: Path) -> None:
    known = Calibration.read(file)
    assert known.measured_on == "a small stream"
    for named in (file, str(file), known):
        engine = Engine(pairs(), calibration=named)
        assert {name: stats.slack for name, stats in engine.stats.items()} == {
            name: setting.slack for name, setting in known.detectors.items()
        }
    assert known.detectors["Pairs"].slack > 0


def test_people_may_edit_it(file: Path) -> None:
    lines = file.read_text().splitlines()
    at = lines.index('[detector."Pairs"]')
    assert lines[at + 2].startswith("slack")
    lines[at + 2] = "slack = '150 ms'  # a guess"
    file.write_text("\n".join(lines))
    assert Calibration.read(file).detectors["Pairs"].slack == 150_000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 2", "format = 7", r"configuration of format 2 in .*, got format 7"),
        ("format = 2", "format = ", "to be TOML"),
        ("measured_on", "measured_no", "unknown key 'measured_no' at the file .*'measured_on'"),
        ("jitter", "jiter", r"unknown key 'jiter' at \[detector.Pairs\] .*did you mean 'jitter'"),
        ("processing", "procesing", r"'procesing' at \[detector.Pairs\] emits.pair .*'processing'"),
        ("level = 1", "level = 'one'", r"expected a whole number at \[detector.Pairs\] level"),
        ('slack = "', 'slack = "about ', r"duration such as '150ms' at \[detector.Pairs\] slack"),
        ("slack =", "sum.slack =", "unknown key 'sum'"),
        ("hierarchy = {", "hierarchy = 5 # {", "expected a table of keys and values at hierarchy"),
        (
            '"emits" = "pair"',
            '"emits" = 5',
            r"a text at \[detector.Pairs\] made_for emits",
        ),
        ("[[run]]", "[run]", r"expected a list at \[\[run\]\]|to be TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(file: Path, old: str, new: str, message: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(CalibrationError, match=message):
        Calibration.read(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"none\.toml.*betimes calibrate"):
        Engine(pairs(), calibration=tmp_path / "none.toml")


# Another hierarchy


def renamed() -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("pair", 2), on="B", emits="pair", name="Pair")
    return hierarchy


def another_clock() -> Hierarchy:
    hierarchy = pairs()
    hierarchy.clock = ("B",)
    return hierarchy


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        (renamed(), "'Pairs' is not in the hierarchy; did you mean 'Pair'"),
        (renamed(), "'Pair' is not in the calibration"),
        (another_clock(), "the hierarchy: clock was A, is B"),
        (renamed(), "recalibrate"),
    ],
)
def test_another_hierarchy_is_refused(file: Path, hierarchy: Hierarchy, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        Engine(hierarchy, calibration=file)


def test_a_hierarchy_with_nothing_in_common_is_refused_in_one_line() -> None:
    made_for, hierarchy = Hierarchy(clock="A"), Hierarchy(clock="A")
    for number in range(32):
        made_for.add(Count("b", 2), on="B", emits=f"b{number}", name=f"Track {number}")
    hierarchy.add(Count("pair", 2), on="B", emits="pair", name="Pair")
    with pytest.raises(CalibrationError) as refused:
        Engine(hierarchy, calibration=Calibration.nothing(made_for))
    first, line, last = str(refused.value).splitlines()
    assert first == "the calibration was made for another hierarchy:"
    assert line == (
        "  it is for 32 detectors (Track 0, Track 1, Track 2, Track 3, Track 4, ...), and none of "
        "these is in the hierarchy, which has 1 detector (Pair)"
    )
    assert "recalibrate" in last


def test_what_starts_differently_looks_different(file: Path) -> None:
    """The state of a query may rest on it, so it must be told apart by its text."""
    text = file.read_text()
    known = loads(text, "here")
    slower = loads(text.replace('level = 1\nslack = "', 'level = 1\nslack = "9'), "here")
    noted: dict[str, Any] = {"measured_on": "elsewhere", "notes": ("a note",)}
    assert repr(known) == repr(Calibration(known.hierarchy, known.detectors, **noted))
    assert repr(known) != repr(slower)
