"""The match of the demo: what is known at a moment, and the picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context

from betimes.apps.soccer import SIMULATED
from betimes.cli.demo.match import WINDOW, MatchResult, follow, summary
from betimes.cli.demo.pitch import draw_match
from betimes.model.change import Change

SECOND = 1_000_000


def change(kind: Any, status: Any, type: str, ts: int, match_id: str, **payload: object) -> Change:
    return Change(
        change_type=kind, status=status, match_id=match_id, seq=0, type=type, ts=ts, detected_at=ts,
        slack=0, payload=payload, detector="", cause="",
    )  # fmt: skip


@pytest.fixture
def run() -> MatchResult:
    """A1 seems to hit the ball; then it was A2, who passes to A3."""
    played = MatchResult(SIMULATED, 1, 1, positions=10, seconds=3)
    place = {"x": 10.0, "y": 5.0, "team": "A"}
    there = {"x": 20.0, "y": 9.0, "team": "A"}
    passed = {"player": "A2", "to": "A3", "team": "A", "received": 2 * SECOND}
    played.told = [
        (500, change("insert", "final", "frame", 400, "f", player=["A1"], x=[1.0], y=[2.0])),
        (600, change("insert", "final", "joins", 500, "n", player="A1")),
        (SECOND, change("insert", "provisional", "hit", SECOND, "a", player="A1", **place)),
        (SECOND + 50, change("delete", "provisional", "hit", SECOND, "a", player="A1", **place)),
        (SECOND + 50, change("insert", "provisional", "hit", SECOND, "b", player="A2", **place)),
        (SECOND + 90, change("confirm", "final", "hit", SECOND, "b", player="A2", **place)),
        (2 * SECOND, change("insert", "provisional", "hit", 2 * SECOND, "c", player="A3", **there)),
        (2 * SECOND, change("insert", "provisional", "pass", SECOND, "p", **passed)),
    ]
    return played


def test_what_was_known_at_a_moment(run: MatchResult) -> None:
    early = run.moment(SECOND)
    assert [(d.event.type, d.status) for d in early.detections] == [
        ("joins", "final"), ("hit", "provisional"),
    ]  # fmt: skip
    assert early.detections[0].place == (1.0, 2.0)
    later = run.moment(2 * SECOND)
    assert {(d.event["player"], d.status) for d in later.detections if d.event.type == "hit"} == {
        ("A1", "taken back"), ("A2", "final"), ("A3", "provisional"),
    }  # fmt: skip
    assert run.moment(2 * SECOND + WINDOW).detections == []


def test_the_best_moment_has_something_taken_back_and_something_open(run: MatchResult) -> None:
    assert run.best_moment() == 2 * SECOND
    assert (run.count("insert"), run.count("delete")) == (5, 1)
    assert "5 detections announced, 1 of them taken back, 0 goals" in summary(run)


def test_the_picture_is_drawn(run: MatchResult, tmp_path: Path) -> None:
    draw_match(run, tmp_path / "match.svg")
    text = (tmp_path / "match.svg").read_text()
    assert text.count("<path") > 20


def test_the_legend_explains_all_marks_and_what_is_final(run: MatchResult, tmp_path: Path) -> None:
    with rc_context({"svg.fonttype": "none"}):
        draw_match(run, tmp_path / "match.svg")
    text = (tmp_path / "match.svg").read_text()
    for words in (
        "near the ball", "hit", "duel", "shot", "block, save", "goal", "out", "pass", "lost pass",
        "final: filled, solid", "provisional: white, dashed", "taken back: crossed out",
    ):  # fmt: skip
        assert f">{words}</text>" in text


def test_a_match_is_followed_to_its_end() -> None:
    played: list[float] = []
    run = follow(3, played.append, seconds=2.0)
    assert run.positions == 68_400
    assert sum(played) == pytest.approx(2.0, abs=0.1)
    assert any(change.type == "hit" and change.status == "final" for _, change in run.told)
