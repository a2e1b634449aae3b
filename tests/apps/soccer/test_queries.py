"""The four queries of the challenge, beside direct formulas: on the real extracts and longer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import betimes as bt
from betimes.apps.soccer import queries
from betimes.apps.soccer.detectors.places import GRIDS
from betimes.apps.soccer.detectors.running import WINDOWS
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.recording import read_recording
from betimes.apps.soccer.stadium import NUREMBERG, SIMULATED
from tests.apps.soccer import direct, played

DATA = Path(__file__).parents[4] / "shared" / "data" / "soccer"
PLAYERS, WITH_BALL = DATA / "players-2067-rows.csv", DATA / "with-ball-52-rows.csv"


def changes_of(path: Path) -> list[bt.Change]:
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    engine = bt.Engine(soccer(), attenuation=1)
    changes: list[bt.Change] = []
    for table in read_recording(path):
        changes += engine.feed(table)
    return [*changes, *engine.finish()]


class TestExtracts:
    def test_running(self) -> None:
        changes = changes_of(PLAYERS)
        tracks = direct.track(direct.from_csv(PLAYERS, header=False), NUREMBERG)
        rows = queries.running(changes).to_pylist()
        found = {(row["player"], row["window"]): row for row in rows}
        assert len(tracks) == 15
        assert len(found) == len(rows) == 15 * (len(WINDOWS) + 1)
        for player, places in tracks.items():
            ((intensity, begin, end, metres),) = direct.runs(places)
            for window in (*WINDOWS, "game"):
                row = found[player, window]
                assert row["intensity"] == intensity
                assert row["seconds"] == pytest.approx((end - begin) / 1e6)
                assert row["metres"] == pytest.approx(metres, abs=0.006)

    def test_heat_map(self) -> None:
        changes = changes_of(PLAYERS)
        tracks = direct.track(direct.from_csv(PLAYERS, header=False), NUREMBERG)
        for grid, (across, along) in GRIDS.items():
            for player, places in tracks.items():
                found = queries.heat_map(changes, player, grid=grid)
                expected = direct.heat(places, NUREMBERG, across, along)
                np.testing.assert_allclose(found, expected, atol=1e-3)

    def test_possession(self) -> None:
        changes = changes_of(WITH_BALL)
        expected = direct.possessions(direct.from_csv(WITH_BALL, header=True), NUREMBERG)
        found = queries.possession(changes).to_pylist()
        assert [(row["player"], row["since"], row["until"]) for row in found] == expected
        assert len(expected) == 1

    def test_no_shot_in_either(self) -> None:
        """The ball moves by centimetres in one extract; in the other there is none."""
        for path in (PLAYERS, WITH_BALL):
            assert queries.shots_on_goal(changes_of(path)).num_rows == 0
        assert direct.shots_on_goal(direct.from_csv(WITH_BALL, header=True), NUREMBERG) == []


@pytest.fixture(scope="module")
def positions() -> direct.Columns:
    return direct.from_tables(played.match(1)[1])


class TestSimulated:
    """Longer, so that windows are full, runs end and there are shots."""

    def test_running(self, positions: direct.Columns) -> None:
        tracks = direct.track(positions, SIMULATED)
        assert len(tracks) == 22
        rows = queries.running(played.in_order(1)).to_pylist()
        found = {(row["player"], row["window"], row["intensity"]): row for row in rows}
        checked = 0
        for player, places in tracks.items():
            finished = direct.runs(places)
            for window, length in {**WINDOWS, "game": None}.items():
                for kind, (seconds, metres) in direct.totals(finished, length).items():
                    row = found[player, window, kind]
                    assert row["seconds"] == pytest.approx(seconds, abs=2e-3)
                    assert row["metres"] == pytest.approx(metres, abs=0.1)
                    checked += 1
        assert checked == len(found)
        assert len({row["intensity"] for row in rows}) >= 4

    def test_heat_map(self, positions: direct.Columns) -> None:
        tracks = direct.track(positions, SIMULATED)
        heat = queries.events_of(played.in_order(1), "heat")
        for grid, (across, along) in GRIDS.items():
            for player in ("A1", "A5", "B9"):
                expected = direct.heat(tracks[player], SIMULATED, across, along)
                found = queries.heat_map(heat, player, grid=grid)
                np.testing.assert_allclose(found, expected, atol=1e-3)

    def test_possession(self, positions: direct.Columns) -> None:
        expected = direct.possessions(positions, SIMULATED)
        found = queries.possession(played.in_order(1)).to_pylist()
        assert [(row["player"], row["since"]) for row in found] == [
            (player, since) for player, since, _ in expected
        ]
        for row, (_, _, until) in zip(found, expected, strict=True):
            assert row["until"] == (until if until is None else pytest.approx(until, abs=1_000))
        assert len(found) >= 10

    def test_shots_on_goal(self, positions: direct.Columns) -> None:
        expected = direct.shots_on_goal(positions, SIMULATED)
        found = queries.shots_on_goal(played.in_order(1)).to_pylist()
        assert [(row["ts"], row["player"]) for row in found] == expected
        assert expected


class TestTables:
    def test_taken_back_does_not_show(self) -> None:
        hit = bt.Change(
            "insert",
            "provisional",
            "m",
            1,
            "holder",
            5,
            5,
            0,
            {"player": "A2", "team": "A"},
            "",
            "",
        )
        undone = bt.Change(
            "delete",
            "provisional",
            "m",
            2,
            "holder",
            5,
            5,
            0,
            {"player": "A2", "team": "A"},
            "",
            "",
        )
        assert queries.possession([hit]).num_rows == 1
        assert queries.possession([hit, undone]).num_rows == 0

    def test_running_at_a_time(self) -> None:
        events = [
            bt.Event("running", ts, {"player": "A2", "game": {"trot": [ts * 1.0, 0.0]}})
            for ts in (10, 20)
        ]
        assert queries.running(events, at=15).to_pylist()[0]["seconds"] == 10.0

    def test_windows_of_heat_maps(self) -> None:
        seconds = [
            bt.Event("heat", ts, {"grid": "8x13", "player": ["A2"], "cell": [ts], "share": [1.0]})
            for ts in (1, 2, 3)
        ]
        assert np.flatnonzero(queries.heat_map(seconds, "A2", since=1, until=2)).tolist() == [2]

    def test_unknown_options(self) -> None:
        with pytest.raises(bt.OptionError, match="grid='3x3'"):
            queries.heat_map([], "A2", grid="3x3")
        with pytest.raises(bt.OptionError, match="of='ball'"):
            queries.possession_shares([], of="ball")
