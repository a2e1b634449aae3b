"""The detectors against what happened in simulated matches: in order, and as it really arrives."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import betimes as bt
from betimes.apps.soccer.disorder import disordered
from betimes.apps.soccer.scoring import KINDS, Score, detected, differences, score, table
from tests.apps.soccer.played import in_order, match, run

PROMISED = ("hit", "pass", "shot", "goal")
SEEDS = (1, 2)


def total(scores: list[dict[str, Score]], kind: str) -> Score:
    rows = [each[kind] for each in scores]
    return Score(
        kind,
        sum(row.found for row in rows),
        sum(row.missed for row in rows),
        sum(row.false for row in rows),
    )


def test_what_happened_is_found_and_nothing_else() -> None:
    scores = [score(detected(in_order(seed)), match(seed)[0].truth) for seed in SEEDS]
    for kind in PROMISED:
        whole = total(scores, kind)
        assert whole.found >= 1, kind
        assert whole.recall >= 0.99, whole
        assert whole.false_share <= 0.01, whole
    everything = [total(scores, kind) for kind in KINDS]
    assert sum(row.missed + row.false for row in everything) <= 0.01 * sum(
        r.found for r in everything
    )


@pytest.mark.parametrize("attenuation", [1, 0.3])
def test_the_same_under_the_disorder_of_the_papers(attenuation: float) -> None:
    _, tables = match(1, 30.0)
    changes = run(disordered(tables, "bursts", seed=7), attenuation)
    assert bt.fold(changes) == bt.fold(in_order(1, 30.0))
    assert any(change.status == "provisional" for change in changes) == (attenuation < 1)


class TestScoring:
    truth = pa.table(
        {
            "kind": ["hit", "hit", "pass"],
            "ts": [1_000_000, 1_015_000, 1_000_000],
            "player": ["A2", "A2", "A2"],
            "other": [None, None, "A3"],
        }
    )

    def test_each_row_is_found_once(self) -> None:
        one = [bt.Event("hit", 1_010_000, {"player": "A2"})]
        assert score(one, self.truth)["hit"] == Score("hit", found=1, missed=1, false=0)
        assert score(one * 3, self.truth)["hit"] == Score("hit", found=2, missed=0, false=1)

    def test_time_and_players_count(self) -> None:
        late = [bt.Event("hit", 1_036_000, {"player": "A2"})]
        assert score(late, self.truth)["hit"].found == 0
        wrong = [bt.Event("pass", 1_000_000, {"player": "A2", "to": "A4"})]
        assert score(wrong, self.truth)["pass"] == Score("pass", found=0, missed=1, false=1)
        right = [bt.Event("pass", 1_000_000, {"player": "A2", "to": "A3"})]
        assert score(right, self.truth)["pass"] == Score("pass", found=1, missed=0, false=0)

    def test_differences_say_which(self) -> None:
        found = [bt.Event("goal", 5, {"player": "A2"})]
        kinds = Counter((what, row.kind) for what, row in differences(found, self.truth))
        assert kinds == {("missed", "hit"): 2, ("missed", "pass"): 1, ("false", "goal"): 1}

    def test_as_a_table(self) -> None:
        rows = table(score([], self.truth)).to_pylist()
        assert rows[0] == {"kind": "hit", "found": 0, "missed": 2, "false": 0}

    def test_shares(self) -> None:
        assert Score("hit", 99, 1, 0).recall == 0.99
        assert Score("hit", 99, 0, 1).false_share == 0.01
        assert (Score("hit", 0, 0, 0).recall, Score("hit", 0, 0, 0).false_share) == (1.0, 0.0)
