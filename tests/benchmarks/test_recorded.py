"""Recorded runs can be trusted: they repeat exactly, and a difference is found and named."""

from __future__ import annotations

import pytest
from benchmarks.recorded.__main__ import difference, file_of
from benchmarks.recorded.jobs import all_jobs

ROWS = [{"batch": 0, "ts": 5, "cause": "A at 5"}, {"batch": 1, "ts": 7, "cause": "A at 7"}]


def test_every_job_has_its_own_file() -> None:
    names = list(all_jobs())
    assert len({file_of(name) for name in names}) == len(names) >= 30


@pytest.mark.parametrize("name", ["mixed: restore", "timed: advance", "compiled: by key"])
def test_a_run_repeats_exactly(name: str) -> None:
    job = all_jobs()[name]
    rows = list(job.run())
    assert any(row.get("change_type") == "delete" for row in rows)
    assert difference(rows, list(job.run())) is None


def test_the_first_difference_is_named() -> None:
    changed = [ROWS[0], ROWS[1] | {"ts": 8}]
    assert difference(ROWS, changed) == "1 of 2 rows; first row 2: ts: 7 -> 8"


def test_a_missing_row_is_a_difference() -> None:
    found = difference(ROWS, ROWS[:1])
    assert found is not None
    assert found.startswith("1 of 2 rows; first row 2: only the old recording has {'batch': 1")
