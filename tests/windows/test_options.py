"""What is wrong with windows is named: options, operators, and what operators do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import betimes as bt
from betimes import DetectorError, Engine, Event, Hierarchy, OptionError
from betimes.testing import oracle


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of count, time, gap and open, got none of them"),
        ({"count": 5, "time": "2s"}, "got count=5, time='2s'"),
        ({"count": 0}, "expected count to be a number of events, 1 or more, got count=0"),
        ({"count": -3}, "got count=-3"),
        ({"count": 2.5}, "got count=2.5"),
        ({"count": 5, "slide": 0}, "expected slide to be a number of events"),
        ({"count": 5, "slide": 6}, "at most the size of the window"),
        ({"count": 5, "offset": "1s"}, "a window with count= has no offset="),
        ({"time": 0}, "expected time to be longer than 0"),
        ({"time": "-2s"}, "expected time to be a duration"),
        ({"time": "2s", "slide": "0s"}, "expected slide to be longer than 0"),
        ({"time": "2s", "slide": "3s"}, "at most the size of the window"),
        ({"time": "1h", "slide": 1}, r"at most 100,000 windows, got 3,600,000,000 with time='1h'"),
        ({"gap": "0ms"}, "expected gap to be longer than 0"),
        ({"gap": "1s", "slide": 1}, "a window with gap= has no slide="),
        ({"open": "v > 1"}, "never ends without close="),
        ({"open": "v > A.v", "close": "v < 1"}, r"asks for \['A'\]"),
        ({"open": "v >", "close": "v < 1"}, "cannot read open"),
        ({"open": 1, "close": "v < 1"}, "got open=1"),
        ({"gap": 5, "limit": 0}, "expected limit"),
        ({"cuont": 5}, "unknown option 'cuont'; did you mean 'count'?"),
    ],
)
def test_a_bad_window_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, bt.PatternError), match=message.replace("?", r"\?")):
        bt.window(**options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "got none"),
        ({"a": "v"}, 'such as "avg'),
        ({"a": 5}, "got a=5"),
        ({"a": "avg()"}, r"avg\(\) to be of a column"),
        ({"a": "quantile(v)"}, 'such as "quantile'),
        ({"a": "quantile(v, 1.5)"}, 'such as "quantile'),
        ({"a": "quantile(v, 0.5.5)"}, 'such as "quantile'),
        ({"a": "quantile(v, .)"}, 'such as "quantile'),
        ({"a": "sum(v +)"}, "cannot read a"),
        ({"a": "sum(A.v)"}, "without the name of a step"),
        ({"window.start": "count()"}, "another name"),
    ],
)
def test_a_bad_aggregate_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, bt.PatternError), match=message):
        bt.aggregate(**columns)


def test_a_bad_operator_is_refused() -> None:
    two = bt.window(count=2)
    for operator in (5, "text", object(), int, lambda: 5, setattr, max):
        with pytest.raises(OptionError, match="expected an operator"):
            bt.windowed(operator, two)
    with pytest.raises(OptionError, match="expected a window"):
        bt.windowed(len, 5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean 'pandas'"):
        bt.windowed(len, two, frame="panda")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="one type"):
        Hierarchy().add(bt.windowed(bt.aggregate(n="count()"), two), on="A", emits=("b", "c"))
    with pytest.raises(OptionError, match="another name for the aggregate 'n' of 'made'"):
        Hierarchy().add(bt.windowed(bt.aggregate(n="count()"), two), on="A", emits="made", by="n")
    for operator in (bt.aggregate(n="count()"), len_of):
        with pytest.raises(OptionError, match=r"'made' to be by another column.*window\.end"):
            Hierarchy().add(
                bt.windowed(operator, two), on="A", emits="made", by="window.end", name="made"
            )
    with pytest.raises(OptionError, match="at most 1,000,000,000,000 events, got limit="):
        bt.window(gap=5, limit=10**20)


def run(operator: Any, window: Any = None, **options: Any) -> Engine:
    hierarchy = Hierarchy(clock="A")
    shape = window or bt.window(count=3)
    hierarchy.add(bt.windowed(operator, shape), on="A", emits="made", name="tested")
    engine = Engine(hierarchy, **options)
    engine.feed([Event("A", ts, {"v": ts % 4}) for ts in range(10, 30)])
    engine.finish()
    return engine


class Fails:
    def on_event(self, event: Event) -> Event | None:
        if event.ts == 17:
            raise ValueError("seventeen")
        return Event("made", event.ts, {})


def test_an_operator_that_fails_in_one_window_follows_errors() -> None:
    with pytest.raises(DetectorError, match=r"tested.*seventeen"):
        run(Fails)
    assert run(Fails, errors="skip").stats["tested"].errors == 1


class Early:
    def on_event(self, event: Event) -> Event:
        return Event("made", event.ts - 5)


def after(table: pa.Table) -> dict[str, Any]:
    return {"ts": table.column("ts")[-1].as_py() + 1}


@pytest.mark.parametrize("operator", [Early, after])
def test_what_lies_outside_its_window_is_an_error(operator: Any) -> None:
    with pytest.raises(DetectorError, match="'tested' to date what it makes within its window"):
        run(operator)


def renamed(table: pa.Table) -> dict[str, Any]:
    return {"v": 10 * table.column("v")[0].as_py()}


def test_a_function_cannot_change_the_key_of_its_window() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(
        bt.windowed(renamed, bt.window(count=2)), on="A", emits="made", by="v", name="tested"
    )
    with pytest.raises(DetectorError, match="'tested' returned v=20 for a window of v=2, its key"):
        bt.detect([Event("A", ts, {"v": 2}) for ts in range(4)], hierarchy)


class Odd:
    def on_event(self, event: Event) -> Event:
        return Event("made", event.ts, {1: 2})  # type: ignore[dict-item]


def test_an_operator_whose_payloads_cannot_be_compared_is_an_error() -> None:
    with pytest.raises(DetectorError, match="'tested' to make events whose payloads have text"):
        run(Odd)
    assert run(Odd, errors="skip").stats["tested"].errors == 20


class Five:
    def on_event(self, _event: Event) -> int:
        return 5


def test_an_operator_that_returns_something_else_is_an_error() -> None:
    with pytest.raises(DetectorError, match=r"a dictionary.*got a int"):
        run(lambda table: table.num_rows)
    with pytest.raises(DetectorError, match=r"several events or None, got a int"):
        run(Five)
    with pytest.raises(DetectorError, match=r"'window\.end'.*rename"):
        run(lambda table: {"window.end": table.num_rows})


def test_a_window_that_never_ends_is_named() -> None:
    endless = bt.window(open="v == 0", close="v == 7", limit=6)
    with pytest.raises(DetectorError, match="began at 12 has more than limit=6 events"):
        run(len_of, endless)
    with pytest.raises(DetectorError, match="began at 10 has more than limit=9 events"):
        run(len_of, bt.window(gap=5, limit=9))


def test_the_event_that_ends_a_window_counts() -> None:
    shape = bt.window(open="v == 0", close="v == 3", limit=4)
    assert run(len_of, shape).stats["tested"].errors == 0
    with pytest.raises(DetectorError, match="more than limit=3 events"):
        run(len_of, bt.window(open="v == 0", close="v == 3", limit=3))


def first_of(_table: pa.Table, window: Any) -> dict[str, Any]:
    return {"first": window.first["v"]}


def test_the_window_that_a_function_gets_has_its_first_event() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(bt.windowed(first_of, bt.window(count=2)), on="A", emits="made")
    events = [Event("A", ts, {"v": 10 * ts}) for ts in range(4)]
    assert [change.payload["first"] for change in bt.detect(events, hierarchy)] == [0, 20]
    assert bt.fold(bt.detect(events, hierarchy)) == oracle(hierarchy, events)


def len_of(table: pa.Table) -> dict[str, Any]:
    return {"n": table.num_rows}


def seen(table: pa.Table) -> dict[str, Any]:
    return {"rows": [list(row.values()) for row in table.to_pylist()], "names": table.column_names}


def test_a_function_gets_every_column_that_some_event_has() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(bt.windowed(seen, bt.window(count=3)), on="A", emits="made")
    payloads: list[dict[str, Any]] = [{"x": 1}, {"y": "two", "type": "other"}, {"x": 3, "ts": 7}]
    events = [Event("A", ts, payload) for ts, payload in enumerate(payloads, 1)]
    (found,) = bt.detect(events, hierarchy)
    assert found.payload["names"] == ["ts", "type", "x", "y"]
    assert found.payload["rows"] == [[1, "A", 1, None], [2, "A", None, "two"], [3, "A", 3, None]]


class Polars:
    """Has what a polars frame has, of all that matters here."""

    columns = ("ts", "v")

    def __init__(self, table: pa.Table) -> None:
        self.__arrow_c_stream__ = table.select(self.columns).__arrow_c_stream__


def test_a_function_may_return_a_frame_of_another_library() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(bt.windowed(lambda t: Polars(t), bt.window(count=2)), on="A", emits="made")
    found = bt.detect([Event("A", ts, {"v": -ts}) for ts in (1, 2)], hierarchy)
    assert [(change.ts, change.payload["v"]) for change in found] == [(1, -1), (2, -2)]


def of_frame(frame: Any) -> Any:
    return frame[frame.v == 3][["ts", "v"]]


def test_pandas_frames_go_in_and_come_out() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(
        bt.windowed(of_frame, bt.window(count=10), frame="pandas"), on="A", emits="made", by="k"
    )
    events = [Event("A", ts, {"v": ts % 4, "k": "x"}) for ts in range(10, 30)]
    found = list(bt.detect(events, hierarchy))
    assert [(c.ts, c.payload["v"], c.payload["k"]) for c in found] == [
        (ts, 3, "x") for ts in range(11, 30, 4)
    ]


class Close:
    """Only says how its window ended."""

    def on_event(self, event: Event) -> None: ...

    def on_close(self, window: Any) -> Iterator[Event]:
        yield Event("made", window.end, {"n": window.count, "full": window.complete})


def test_the_end_of_the_stream_closes_windows_that_are_not_complete() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(bt.windowed(Close, bt.window(count=4, slide=2)), on="A", emits="made")
    found = list(bt.detect([Event("A", ts) for ts in range(7)], hierarchy))
    assert [(c.ts, c.payload["n"], c.payload["full"]) for c in found] == [
        (3, 4, True), (5, 4, True), (6, 3, False), (6, 1, False),
    ]  # fmt: skip


def test_two_hierarchies_differ_in_words() -> None:
    def made(size: int) -> Hierarchy:
        hierarchy = Hierarchy(clock="A")
        hierarchy.add(
            bt.windowed(bt.aggregate(n="count()"), bt.window(count=size)), on="A", emits="made"
        )
        return hierarchy

    differences = made(4).identity().differences(made(3).identity())
    assert differences == ["detector 'made': window was 3 events every 3, is 4 events every 4"]
