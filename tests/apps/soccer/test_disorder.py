"""Disorder as the papers measured it: bounds, order of sensors, and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.apps.soccer.disorder import LAN, PRESETS, Delays, disordered
from betimes.apps.soccer.recording import cut, read_recording
from betimes.model import EventError, OptionError
from tests.apps.soccer.matches import positions

Array = np.ndarray[Any, Any]
REAL = Path(__file__).parents[4] / "shared" / "data" / "soccer"
EXTRACTS = [REAL / "players-2067-rows.csv", REAL / "with-ball-52-rows.csv"]


def column(table: pa.Table, name: str) -> Array:
    return table[name].to_numpy(zero_copy_only=False)


def made(times: list[int], sensors: list[int], balls: tuple[int, ...] = (0,)) -> pa.Table:
    types = ["ball" if sid in balls else "player" for sid in sensors]
    return pa.table(
        {"ts": pa.array(times, pa.int64()), "type": pa.array(types, pa.string()),
         "sid": pa.array(sensors, pa.int32())}
    )  # fmt: skip


def arrived(
    table: pa.Table, delays: Delays | str = LAN, seed: int = 0, rows: int = 10**9
) -> pa.Table:
    return pa.concat_tables(disordered(cut([table], rows), delays, seed)).combine_chunks()


@pytest.mark.parametrize("name", PRESETS)
def test_delays_are_those_of_the_papers(name: str) -> None:
    table = positions(8.0, 2)
    out = arrived(table, name)
    delays = PRESETS[name]
    late = column(out, "arrived") - column(out, "ts")
    ball = column(out, "type") == "ball"
    assert late.min() >= delays.network_least
    assert late[ball].max() <= delays.ball_jitter + delays.network_most
    assert late[~ball].min() >= delays.jitter_least + delays.network_least
    assert late[~ball].max() <= delays.most
    # A long tail: the worst is near the bound, the usual far from it.
    calm = delays.most - (delays.burst_most if delays.burst_every else 0)
    assert late[~ball].max() > 0.9 * calm
    assert np.median(late[~ball]) < 0.5 * calm
    if delays.burst_every:
        assert late[~ball].max() > calm


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_is_lost_and_arrivals_are_in_order(name: str) -> None:
    table = positions(8.0, 2)
    out = arrived(table, name, seed=5)
    assert column(out, "seq").tolist() == list(range(len(table)))
    assert (np.diff(column(out, "arrived")) >= 0).all()
    order = np.lexsort((column(out, "sid"), column(out, "ts")))
    before = np.lexsort((column(table, "sid"), column(table, "ts")))
    back = out.drop_columns(["seq", "arrived"]).take(order)
    assert back.equals(table.take(before))


def test_positions_of_a_sensor_stay_in_order() -> None:
    out = arrived(positions(8.0, 2), "bursts")
    order = np.lexsort((column(out, "seq"), column(out, "sid")))
    sid, ts = column(out, "sid")[order], column(out, "ts")[order]
    assert ((np.diff(ts) > 0) | (np.diff(sid) > 0)).all()


def test_most_positions_arrive_after_a_later_one() -> None:
    ts = column(arrived(positions(8.0, 2)), "ts")
    assert (ts < np.maximum.accumulate(ts)).mean() > 0.85


def test_ten_positions_of_a_sensor_arrive_at_once() -> None:
    table = made([k * 5_000 for k in range(40)], [7] * 40)
    out = arrived(table)
    packets = column(out, "arrived").reshape(4, 10)
    assert (packets == packets[:, :1]).all()
    sent = column(table, "ts").reshape(4, 10)[:, -1]
    assert ((packets[:, 0] - sent >= 5_100) & (packets[:, 0] - sent <= 100_900)).all()
    assert len(np.unique(packets[:, 0])) == 4


def test_a_silent_sensor_does_not_keep_its_packet() -> None:
    table = made([0, 5_000, 10_000, 10_000_000], [7, 7, 7, 0])
    out = arrived(table)
    early = column(out, "arrived")[column(out, "sid") == 7]
    assert len(set(early.tolist())) == 1
    assert 10_000 + LAN.packet_wait + 5_100 <= early[0] <= 10_000 + LAN.packet_wait + 100_900


def test_a_burst_holds_up_everything_but_the_ball() -> None:
    """While nothing comes through, no player arrives; then many do at once."""
    table = positions(8.0, 2)
    delays = replace(LAN, burst_every=3_000_000, burst_least=300_000, burst_most=300_000)
    out = arrived(table, delays)
    ball = column(out, "type") == "ball"
    gaps = np.diff(np.unique(column(out, "arrived")[~ball]))
    assert (gaps > 290_000).sum() in (2, 3)
    assert np.diff(np.unique(column(out, "arrived")[ball])).max() < 6_000


stream = st.lists(
    st.tuples(st.integers(0, 30_000), st.integers(0, 4)), min_size=1, max_size=80
)  # fmt: skip


@settings(max_examples=60)
@given(stream, st.integers(1, 30), st.integers(0, 3), st.sampled_from(sorted(PRESETS)),
       st.integers(1, 5))  # fmt: skip
def test_the_cut_does_not_matter(
    steps: list[tuple[int, int]], rows: int, seed: int, name: str, packet: int
) -> None:
    times = np.cumsum([gap for gap, _ in steps]).tolist()
    table = made(times, [sid for _, sid in steps])
    delays = replace(PRESETS[name], packet=packet)
    assert arrived(table, delays, seed, rows).equals(arrived(table, delays, seed))


@pytest.mark.parametrize("path", EXTRACTS, ids=lambda path: path.stem)
def test_recordings_get_disorder(path: Path) -> None:
    if not path.exists():
        pytest.skip("the recording is not here")
    table = pa.concat_tables(read_recording(path))
    out = arrived(table, "wan")
    late = column(out, "arrived") - column(out, "ts")
    assert np.array_equal(np.sort(column(out, "ts")), column(table, "ts"))
    assert late.min() >= PRESETS["wan"].network_least
    assert late.max() <= PRESETS["wan"].most + LAN.packet_wait


def test_the_seed_matters() -> None:
    table = positions(2.0, 3)
    assert arrived(table, seed=1).equals(arrived(table, seed=1))
    assert not arrived(table, seed=1).equals(arrived(table, seed=2))


def test_only_a_window_is_held_back() -> None:
    """When a table is in, all that arrives before its last position is out."""
    tables = list(cut([positions(8.0, 2)], 20_000))
    given_in = out = 0
    newest = 0

    def watched() -> Iterator[pa.Table]:
        nonlocal given_in, newest
        for table in tables:
            given_in += len(table)
            newest = int(column(table, "ts")[-1])
            yield table

    for table in disordered(watched(), "lan"):
        out += len(table)
        if given_in < sum(map(len, tables)):
            assert given_in - out < 0.2 * 34_200 * 1.5, "more than 200 ms are held back"
            assert column(table, "arrived")[-1] < newest


def test_memory_does_not_grow_with_the_stream() -> None:
    before = pa.total_allocated_bytes()
    most = 0

    def endless() -> Iterator[pa.Table]:
        for number in range(60):
            times = number * 1_000_000 + np.arange(5_000) * 200
            yield made(times.tolist(), (np.arange(5_000) % 20).tolist())

    for number, _ in enumerate(disordered(endless(), "bursts")):
        now = pa.total_allocated_bytes() - before
        if number < 10:
            most = max(most, now)
        assert now <= 2 * most


def test_bad_input_is_named() -> None:
    with pytest.raises(EventError, match="in order of time"):
        arrived(made([5, 3], [1, 1]))
    with pytest.raises(EventError, match="in order of time"):
        list(disordered([made([5], [1]), made([3], [1])]))
    with pytest.raises(EventError, match="a column 'sid'"):
        arrived(made([5], [1]).drop_columns(["sid"]))
    with pytest.raises(EventError, match="sensor numbers"):
        arrived(made([5], [-1]))
    with pytest.raises(OptionError, match="lan, wan, bursts"):
        list(disordered([], "slow"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ball_jitter": -1}, "ball_jitter"),
        ({"jitter_least": 200_000}, "jitter_least to be at most jitter_most"),
        ({"packet": 0}, "packet to be from 1"),
        ({"packet": 65}, "packet to be from 1"),
        ({"burst_every": 100}, "at least twice burst_most"),
        ({"network_most": 1.5}, "whole number"),
    ],
)
def test_impossible_delays_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Delays(**options)


def test_no_positions_are_no_arrivals() -> None:
    assert list(disordered([])) == []
    assert list(disordered([made([], [])])) == []
