"""The hierarchy as a whole: its shape, its patterns, and the same result in any order."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import betimes as bt
from betimes.apps.soccer.hierarchy import simulated, soccer
from betimes.testing import oracle
from tests.apps.soccer.scenes import kicked, ordered, standing

SECOND = 1_000_000
NODES = {node.name: node for node in soccer()}


def find(name: str, *events: tuple[str, float, dict[str, Any]]) -> list[bt.Event]:
    """What the pattern of this name makes of events: type, second, payload."""
    pattern = NODES[name].pattern
    assert pattern is not None
    detector = pattern.make()
    found: list[bt.Event] = []
    for type, second, payload in events:
        found += detector.on_event(bt.Event(type, round(second * SECOND), payload)) or []
    return found


def hit(second: float, player: str) -> tuple[str, float, dict[str, Any]]:
    return "hit", second, {"player": player, "team": player[0], "keeper": player[1:] == "1"}


def shot(second: float, player: str) -> tuple[str, float, dict[str, Any]]:
    return "shot_on_goal", second, {"player": player, "team": player[0]}


def passed(
    second: float, player: str, to: str, since: float, received: float
) -> tuple[str, float, dict[str, Any]]:
    times = {"since": round(since * SECOND), "received": round(received * SECOND)}
    return "pass", second, {"player": player, "team": player[0], "to": to, **times}


def test_shape() -> None:
    hierarchy = soccer()
    levels = hierarchy.levels()
    assert len(levels) >= 25
    assert max(levels.values()) >= 9
    assert set(range(1, 10)) <= set(levels.values())


def test_the_same_for_each_stadium() -> None:
    assert simulated().explain() == soccer().explain()


def test_only_the_lowest_level_reads_raw_positions() -> None:
    levels = soccer().levels()
    for node in soccer():
        assert (levels[node.name] == 1) == bool({"ball", "player"} & set(node.on))


def near(second: float, player: str, type: str = "near") -> tuple[str, float, dict[str, Any]]:
    return type, second, {**hit(second, player)[2], "ball": 4}


def kick(second: float) -> tuple[str, float, dict[str, Any]]:
    return "kick", second, {"ball": 4, "x": 1.0, "y": 2.0, "z": 0.1, "a": 99.0}


class TestPlayerHitsBall:
    def hits(self, *events: tuple[str, float, dict[str, Any]]) -> list[tuple[float, str]]:
        found = find("PlayerHitsBall", *events)
        return [(event.ts / SECOND, event["player"]) for event in found]

    def test_who_is_near_when_the_ball_is_kicked(self) -> None:
        (found,) = find("PlayerHitsBall", near(1, "B1"), kick(2))
        assert found.type == "hit"
        assert found.payload == {
            "player": "B1", "team": "B", "keeper": True,
            "ball": 4, "x": 1.0, "y": 2.0, "z": 0.1, "a": 99.0,
        }  # fmt: skip

    def test_who_was_near_has_not_hit_it(self) -> None:
        assert self.hits(near(1, "A2"), near(1.5, "A2", "not_near"), kick(2)) == []
        events = near(1, "A2"), near(1.5, "A2", "not_near"), near(1.5, "B3"), kick(2)
        assert self.hits(*events) == [(2.0, "B3")]

    def test_who_stays_near_can_hit_it_again(self) -> None:
        events = near(1, "A2"), kick(2), kick(3), near(3.5, "A2", "not_near"), kick(4)
        assert self.hits(*events) == [(2.0, "A2"), (3.0, "A2")]


class TestPatterns:
    def test_a_blocked_shot(self) -> None:
        found = find("BlockedShot", hit(1, "A4"), shot(1, "A4"), hit(1.2, "B3"))
        assert [e.payload for e in found] == [{"player": "B3", "team": "A", "shooter": "A4"}]

    def test_not_by_the_keeper_nor_a_team_mate_nor_after_another_hit(self) -> None:
        assert find("BlockedShot", shot(1, "A4"), hit(1.2, "B1")) == []
        assert find("BlockedShot", shot(1, "A4"), hit(1.2, "A5")) == []
        assert find("BlockedShot", shot(1, "A4"), hit(1.2, "A5"), hit(1.3, "B3")) == []
        assert find("BlockedShot", shot(1, "A4"), hit(3.1, "B3")) == []

    def test_a_save(self) -> None:
        found = find("Save", hit(1, "A4"), shot(1, "A4"), hit(1.2, "B1"))
        assert [e["player"] for e in found] == ["B1"]

    def test_no_save_after_a_goal(self) -> None:
        goal = ("goal", 1.1, {"player": "A4", "team": "A"})
        assert find("Save", shot(1, "A4"), goal, hit(1.2, "B1")) == []

    def test_a_double_pass(self) -> None:
        found = find("DoublePass", passed(1, "A2", "A3", 0, 2), passed(3, "A3", "A2", 2, 4))
        assert [(e["player"], e["with"], e["began"]) for e in found] == [("A2", "A3", SECOND)]

    def test_three_passes_are_two_double_passes(self) -> None:
        first, second = passed(1, "A2", "A3", 0, 2), passed(3, "A3", "A2", 2, 4)
        assert len(find("DoublePass", first, second, passed(5, "A2", "A3", 4, 6))) == 2

    def test_no_double_pass_if_others_had_the_ball_or_it_took_long(self) -> None:
        first = passed(1, "A2", "A3", 0, 2)
        assert find("DoublePass", first, passed(3, "A3", "A2", 2.5, 4)) == []
        assert find("DoublePass", first, passed(3, "A3", "A5", 2, 4)) == []
        assert find("DoublePass", first, passed(6.1, "A3", "A2", 2, 7)) == []
        assert len(find("DoublePass", first, passed(6.0, "A3", "A2", 2, 7))) == 1

    def test_a_combination_is_three_passes_without_losing_the_ball(self) -> None:
        passes = [passed(n, f"A{n}", f"A{n + 1}", n, n + 1) for n in (2, 3, 4)]
        assert len(find("Combination", *passes)) == 1
        lost = ("unsuccessful_pass", 3.5, {"team": "A"})
        assert find("Combination", *passes[:2], lost, passes[2]) == []

    def test_from_an_attack_to_momentum(self) -> None:
        attack = ("attack", 1.0, {"team": "A", "counter": True})
        (danger,) = find("DangerousAttack", attack, shot(4, "A4"))
        assert danger.payload == {"team": "A", "player": "A4", "counter": True}
        save = ("save", 4.3, {"team": "A", "player": "B1"})
        (chance,) = find("Chance", ("dangerous_attack", 4.0, danger.payload), save)
        assert chance.payload == {"team": "A", "player": "A4", "ended": "save"}
        again = [("chance", second, chance.payload) for second in (10.0, 50.0, 90.0, 200.0)]
        assert len(find("Momentum", *again)) == 2


def scene() -> list[bt.Event]:
    """Two passes and a shot that is saved, in little more than two seconds."""
    kicks = [(50, (0.0, 16.0, 0.0)), (850, (14.0, 0.0, 0.0)), (1450, (-10.0, 20.0, 0.0))]
    keeper = standing("B1", 24.6, 33.2, 2600)
    return ordered(
        kicked([*kicks, (2450, (3.0, -9.0, 0.0))], (26.0, 0.0, 0.1), 2600, step=1.0),
        standing("A2", 26.0, -0.4, 2600),
        standing("A3", 25.7, 13.0, 2600),
        standing("A4", 34.8, 13.1, 2600),
        keeper,
    )


def test_who_comes_nearest_with_the_sample_of_the_kick_has_hit_the_ball() -> None:
    """All events have the same time; `near` comes first, by the names of their detectors."""
    events = ordered(
        standing("A2", 26.0, -0.3, 80, since=50),
        standing("B4", 26.0, 0.7, 80),
        kicked([(50, (0.0, 10.0, 0.0))], (26.0, 0.0, 0.1), 80),
    )
    (found,) = (event for event in oracle(soccer(), events) if event[0] == "hit")
    assert json.loads(found[2])["player"] == "A2"


@cache
def expected() -> Counter[tuple[str, int, str]]:
    """What the oracle makes of the scene."""
    return oracle(soccer(), scene())


def test_a_scene_from_positions_to_a_save() -> None:
    engine = bt.Engine(soccer(), attenuation=1)
    changes = [*engine.feed(scene()), *engine.finish()]
    kinds = Counter(change.type for change in changes)
    assert kinds["hit"] == 4
    assert kinds["pass"] == 2
    assert kinds["shot_on_goal"] == kinds["save"] == 1
    (save,) = (change for change in changes if change.type == "save")
    assert (save.payload["player"], save.payload["shooter"]) == ("B1", "A4")


def test_it_goes_on_from_a_checkpoint_in_the_middle_of_the_scene() -> None:
    events = scene()
    half = len(events) // 2
    engine = bt.Engine(soccer(), attenuation=0.3)
    changes = [*engine.feed(events[:half])]
    again = bt.Engine(soccer(), attenuation=0.3)
    again.restore(engine.checkpoint())
    for each in (engine, again):
        rest = [*each.feed(events[half:]), *each.finish()]
        assert bt.fold([*changes, *rest]) == expected()


@pytest.mark.parametrize("attenuation", [1, 0.3, 0])
def test_order_of_arrival_does_not_show(attenuation: float) -> None:
    events = scene()
    rng = np.random.default_rng(5)
    delays = [rng.uniform(0, 2_000 if e.type == "ball" else 60_000) for e in events]
    arrivals = [
        e for _, e in sorted(zip(delays, events, strict=True), key=lambda p: p[0] + p[1].ts)
    ]
    engine = bt.Engine(soccer(), attenuation=attenuation)
    changes: list[bt.Change] = []
    for low in range(0, len(arrivals), 400):
        changes += engine.feed(arrivals[low : low + 400])
    changes += engine.finish()
    assert bt.fold(changes) == expected()
