"""Level 1: detectors of raw positions, on scenes made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import betimes as bt
from betimes.apps.soccer.detectors import raw
from betimes.testing import check_detector
from tests.apps.soccer.scenes import START, kicked, ordered, position, run, standing

CENTRE = (26.0, 0.0, 0.1)


def a_pass() -> list[bt.Event]:
    """A2 kicks the ball along the pitch, 12 m to A3, who kicks it back; B4 stands by."""
    return ordered(
        kicked([(100, (0, 15, 0)), (900, (0, -15, 0))], CENTRE, 1500),
        standing("A2", 26.0, -0.4, 1500),
        standing("A3", 26.3, 12.0, 1500),
        standing("B4", 26.0, 6.0, 1500),
    )


def of(type: str, events: list[bt.Event]) -> list[bt.Event]:
    return [event for event in events if event.type == type]


class TestStrikes:
    def test_each_contact_is_one_peak(self) -> None:
        made = of("peak", run(raw.Strikes(), a_pass()))
        assert [event["start"] - START for event in made] == [100_000, 900_000]
        first = made[0]
        assert first.ts - first["start"] <= 7_000
        assert first["vy1"] == pytest.approx(15.0)
        assert first["vy"] == 0.0
        assert (first["x"], first["y"], first["ball"]) == (26.0, 0.0, 4)

    def test_a_dip_does_not_make_two(self) -> None:
        events = [
            position(4, ms * 0.5, CENTRE, a=a) for ms, a in enumerate([0, 80, 20, 90, 0] + [0] * 9)
        ]
        assert [event.type for event in run(raw.Strikes(), events)] == ["kick", "peak"]

    def test_gentle_contacts_are_none(self) -> None:
        events = [position(4, ms * 0.5, CENTRE, a=54.9) for ms in range(50)]
        assert run(raw.Strikes(), events) == []

    def test_one_that_never_ends_is_told_once(self) -> None:
        events = [position(4, ms * 0.5, CENTRE, a=300.0) for ms in range(200)]
        made = run(raw.Strikes(), events)
        assert [(e.type, e.ts - START) for e in made] == [("kick", 0), ("peak", 20_000)]

    def test_balls_have_their_own(self) -> None:
        events = ordered(
            kicked([(10, (0, 9, 0))], CENTRE, 30),
            kicked([(12, (0, 9, 0))], CENTRE, 30, sid=8),
        )
        assert [event["ball"] for event in of("peak", run(raw.Strikes(), events))] == [4, 8]

    def test_a_kick_is_told_with_its_first_sample(self) -> None:
        made = of("kick", run(raw.Strikes(), a_pass()))
        assert [event.ts - START for event in made] == [100_000, 900_000]
        assert (made[0]["x"], made[0]["y"], made[0]["ball"]) == (26.0, 0.0, 4)
        assert made[0]["a"] >= raw.KICK


class TestProximity:
    def test_who_joins_and_leaves(self) -> None:
        made = [e for e in run(raw.Proximity(), a_pass()) if e.type in ("joins", "leaves")]
        told = [(e.type, e["player"]) for e in made]
        assert told[:4] == [("joins", "A2"), ("leaves", "A2"), ("joins", "B4"), ("leaves", "B4")]
        left = made[1].ts - START
        distance = 0.4 + 15.0 * (left - 100_000) * 1e-6
        assert distance == pytest.approx(raw.LEAVE, abs=0.1)

    def test_who_is_near_and_no_longer(self) -> None:
        made = [e for e in run(raw.Proximity(), a_pass()) if e.type in ("near", "not_near")]
        told = [(e.type, e["player"]) for e in made]
        assert told[:4] == [("near", "A2"), ("not_near", "A2"), ("near", "B4"), ("not_near", "B4")]
        assert (made[0]["team"], made[0]["keeper"], made[0]["ball"]) == ("A", False, 4)
        left = made[1].ts - START
        distance = 0.4 + 15.0 * (left - 100_000) * 1e-6
        assert distance == pytest.approx(raw.REACH, abs=0.1)

    def test_only_the_nearest_is_near(self) -> None:
        events = ordered(
            kicked([(50, (0, 10, 0))], CENTRE, 300),
            standing("B4", 26.0, 0.7, 300),
            standing("A2", 26.0, -0.3, 300),
        )
        made = run(raw.Proximity(), events)
        told = [(e.type, e["player"]) for e in made if e.type in ("near", "not_near")]
        assert told == [("near", "A2"), ("not_near", "A2"), ("near", "B4"), ("not_near", "B4")]
        lost, won = (e for e in made if (e.type, e["player"]) in told[1:3])
        assert lost.ts == won.ts
        assert [e["player"] for e in of("joins", made)] == ["A2", "B4"]

    def test_somebody_who_has_not_been_reported_for_long_is_not_near(self) -> None:
        events = ordered(standing("A2", 26.0, -0.4, 100), kicked([], CENTRE, 700))
        (near, not_near) = (e for e in run(raw.Proximity(), events) if "near" in e.type)
        assert near.ts - START == 0
        assert not_near.ts - START == pytest.approx(95_000 + raw.STALE, abs=1_000)


class TestCrossings:
    def leave(self, velocity: tuple[float, float, float], place: tuple[float, float, float]) -> Any:
        made = run(raw.Crossings(), kicked([(0, velocity)], place, 1000))
        return made[0] if made else None

    def test_over_the_touch_line(self) -> None:
        crossed = self.leave((10, 0, 0), (50.0, 5.0, 0.1))
        assert (crossed["line"], crossed["goal"]) == ("touch", False)
        assert crossed["x"] == pytest.approx(52.483)
        assert crossed["y"] == pytest.approx(5.0)
        assert crossed.ts - START == pytest.approx(2_483 / 10 * 1000 + 2_000, abs=600)

    def test_over_the_goal_line(self) -> None:
        crossed = self.leave((0, -20, 0), (10.0, -25.0, 0.1))
        assert (crossed["line"], crossed["end"], crossed["goal"]) == ("goal", 1, False)

    def test_into_the_goal(self) -> None:
        crossed = self.leave((0, 20, 0), (26.0, 25.0, 0.1))
        assert (crossed["line"], crossed["end"], crossed["goal"]) == ("goal", 0, True)

    def test_over_the_bar(self) -> None:
        assert not self.leave((0, 20, 0), (26.0, 25.0, 2.5))["goal"]

    def test_a_ball_on_the_line_is_in(self) -> None:
        assert self.leave((0.1, 0, 0), (52.3, 5.0, 0.1)) is None

    def test_one_that_was_never_on_the_pitch_cannot_leave_it(self) -> None:
        assert self.leave((10, 0, 0), (53.0, 5.0, 0.1)) is None


class TestTracks:
    def test_the_ball_is_told_fifty_times_a_second(self) -> None:
        made = run(raw.BallTrack(), kicked([(0, (0, 10, 0))], CENTRE, 1000))
        assert [event.ts - START for event in made] == [n * 20_000 for n in range(50)]
        assert made[25]["y"] == pytest.approx(5.0, abs=0.05)
        assert made[25]["vy"] == pytest.approx(10.0)

    def test_balls_beside_the_pitch_are_not(self) -> None:
        assert run(raw.BallTrack(), kicked([], (-7.0, 0.0, 0.0), 500)) == []

    def test_players_are_where_the_mean_of_their_legs_is(self) -> None:
        speed = 6.0
        events = [
            position(sid, ms, (20.0 + side, speed * ms / 1000.0, 0.1))
            for ms in np.arange(0.0, 2000.0, 5.0)
            for sid, side in ((47, -0.2), (16, 0.2))
        ]
        made = run(raw.PlayerTrack(), events)
        assert len(made) == 19
        last = made[-1]
        assert last["player"] == ["A2"]
        assert last["x"] == pytest.approx([20.0])
        assert last["y"] == pytest.approx([speed * (last.ts - START - 52_500) * 1e-6], abs=1e-3)
        assert last["speed"] == pytest.approx([speed], abs=1e-3)

    def test_a_player_who_is_not_reported_is_left_out(self) -> None:
        events = ordered(standing("A2", 20, 0, 1000), standing("B3", 21, 0, 450))
        made = run(raw.PlayerTrack(), events)
        assert made[2]["player"] == ["A2", "B3"]
        assert made[7]["player"] == ["A2"]


@pytest.mark.parametrize(
    "detector", [raw.Strikes, raw.Proximity, raw.Crossings, raw.BallTrack, raw.PlayerTrack]
)
class TestContract:
    def test_where_slices_are_cut_does_not_matter(self, detector: Any) -> None:
        events = a_pass()
        whole = run(detector(), events)
        for cut in (1, 7, 1000):
            assert run(detector(), events, cut=cut) == whole

    def test_sensors_that_the_stadium_does_not_have_are_left_out(self, detector: Any) -> None:
        events = a_pass()
        strange = [position(sid, 1.0, CENTRE, a=900.0) for sid in (5, 7_000)]
        assert run(detector(), ordered(events, strange)) == run(detector(), events)


@pytest.mark.parametrize("detector", [raw.Strikes, raw.Proximity])
def test_the_contract_with_the_engine(detector: Any) -> None:
    events = ordered(kicked([(5, (0, 12, 0))], CENTRE, 30), standing("A2", 26, -0.4, 30))
    check_detector(detector, events)


def test_the_contract_with_the_engine_of_tracks() -> None:
    check_detector(raw.PlayerTrack, standing("A2", 26, -0.4, 450))
    check_detector(raw.BallTrack, kicked([], CENTRE, 120))
    check_detector(raw.Crossings, kicked([(0, (30, 0, 0))], (51.9, 5.0, 0.1), 60))
