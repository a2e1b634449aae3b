"""How much history is kept: by default as much as memory allows, so short streams are repaired."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from betimes import Engine, Event, EventBatch, Hierarchy, OptionError, pattern
from betimes.engine.retention import LEAST, Retention
from tests.engine.cases import every_case
from tests.engine.material import Count
from tests.engine.protocol import NAME, Case

SECOND = 1_000_000
BATCH = 100


def counting(**options: Any) -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("n", every=10), on=("A", "B"), emits="n", name="count", **options)
    return hierarchy


def hours(count: int, *, apart: int = SECOND, keys: int = 3) -> Iterator[EventBatch]:
    """A long stream in order, with two columns."""
    for low in range(0, count, BATCH):
        n = np.arange(low, low + BATCH)
        payload = pa.table({"k": pa.array(n // 3 % keys), "v": pa.array(n * 0.5)})
        yield EventBatch(n * apart, (n % 3).astype(np.int32), ("A", "B", "C"), payload)


@pytest.mark.parametrize("attenuation", [0.0, 1.0])
def test_a_short_stream_is_repaired_completely(attenuation: float) -> None:
    events = [Event("A", n * SECOND, {"k": 0}) for n in range(3 * 3600)]
    engine = Engine(counting(), attenuation=attenuation)
    rows = [*engine.feed(events[:5] + events[6:]), *engine.feed(events[5]), *engine.finish()]
    assert engine.stats["count"].late == 0
    found = {row.match_id for row in rows if row.change_type == "insert"} - {
        row.match_id for row in rows if row.change_type == "delete"
    }
    ordered = Engine(counting(), attenuation=1.0)
    wanted = [*ordered.feed(events), *ordered.finish()]
    assert found == {row.match_id for row in wanted if row.change_type == "insert"}


@every_case
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("above", [False, True])
def test_a_long_stream_stays_within_its_budget(case: Case, by: str | None, above: bool) -> None:
    hierarchy = case.hierarchy(by=by, above=above, plain=True)
    whole, _ = sizes(hierarchy, "1 GB")
    taken, remembered = sizes(hierarchy, f"{whole[-1] / 4000} kB")
    assert max(taken) <= 1.3 * whole[-1] / 4 + 2 * max(abs(np.diff(taken)))
    assert remembered > 30  # more than what comes in 10 s


def sizes(hierarchy: Hierarchy, retention: str) -> tuple[list[int], int]:
    """How much history takes after each batch, and how many events are remembered at the end."""
    engine = Engine(hierarchy, retention=retention, snapshots=20)
    taken = []
    for batch in hours(3_000):
        engine.feed(batch)
        taken.append(sum(stats.history_bytes for stats in engine.stats.values()))
    assert sum(stats.late for stats in engine.stats.values()) == 0
    return taken, engine.stats[NAME].remembered


@every_case
def test_the_size_of_history_is_about_what_it_takes(case: Case) -> None:
    engine = Engine(case.hierarchy(by="k", plain=True), retention="1 GB", attenuation=1.0)
    batches = list(hours(6_000))
    for batch in batches[:20]:
        engine.feed(batch)  # loads what is loaded once
    told = engine.stats[NAME].history_bytes
    tracemalloc.start()
    try:
        for batch in batches[20:]:
            engine.feed(batch)
        found, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.4 < (engine.stats[NAME].history_bytes - told) / found < 2.5


@every_case
def test_the_size_of_history_is_that_of_now_however_often_one_asks(case: Case) -> None:
    hierarchy = case.hierarchy(by="k", above=True, plain=True)
    asked, unasked = (Engine(hierarchy, attenuation=0.0, snapshots=3) for _ in range(2))
    order = np.random.default_rng(1).permuted(np.arange(600).reshape(-1, 12), axis=1).ravel()
    events = EventBatch.concat([*hours(600)]).take(order)
    for low in range(0, 600, 7):
        part = events[low : low + 7]
        assert [*asked.feed(part)] == [*unasked.feed(part)]
        sizes = [stats.history_bytes for stats in asked.stats.values()]
    assert any(stats.replays for stats in asked.stats.values())
    assert sizes == [stats.history_bytes for stats in unasked.stats.values()]


def test_a_stream_too_fast_for_its_budget_keeps_what_it_must() -> None:
    engine = Engine(counting(), retention="1 kB")
    for batch in hours(20_000, apart=SECOND // 100):
        engine.feed(batch)
    stats = engine.stats["count"]
    assert stats.remembered >= LEAST // (SECOND // 100) * 2 // 3  # of three types, it sees two
    assert stats.remembered < 20_000 * 2 // 3


@pytest.mark.parametrize("options", [{}, {"order": "key", "by": "k"}], ids=["shared", "by key"])
@every_case
def test_a_restart_forgets_what_the_first_run_would(case: Case, options: dict[str, Any]) -> None:
    hierarchy = case.hierarchy(plain=True)
    options = options | {"retention": "15 kB", "attenuation": 0.5, "snapshots": 20}
    whole, parted = Engine(hierarchy, **options), Engine(hierarchy, **options)
    late = iter(np.random.default_rng(1).integers(0, 6_000, 100).tolist())
    for number, batch in enumerate(hours(6_000)):
        ts = batch.ts.copy()
        ts[7] = next(late) * SECOND + 1  # now and then an event that may be too late
        disordered = EventBatch(ts, batch.codes, batch.types, batch.payload)
        assert whole.feed(disordered).to_arrow("json") == parted.feed(disordered).to_arrow("json")
        if number % 15 == 14:
            kept, parted = parted.checkpoint(), Engine(hierarchy, **options)
            parted.restore(kept)
    assert sum(stats.late for stats in whole.stats.values()) > 0
    assert {n: s.late_by for n, s in whole.stats.items()} == {
        n: s.late_by for n, s in parted.stats.items()
    }


def test_keys_share_the_budget() -> None:
    engine = Engine(counting(), order="key", by="k", retention="200 kB", snapshots=10)
    for batch in hours(8_000, keys=25):
        engine.feed(batch)
    taken = sum(stats.history_bytes for stats in engine.stats.values())
    assert 100_000 < taken < 500_000


def test_how_late_the_latest_was_is_told() -> None:
    engine = Engine(counting(), retention="1s", attenuation=1.0)
    engine.feed([Event("A", n * SECOND, {"k": 0}) for n in range(100)])
    engine.feed([Event("A", 20 * SECOND, {"k": 0}), Event("A", 10 * SECOND, {"k": 0})])
    engine.finish()
    stats = engine.stats["count"]
    assert (stats.late, stats.late_by) == (2, 99 * SECOND - 10 * SECOND - 1)
    assert "late_by=1.483 min" in repr(stats)


def test_how_late_it_was_does_not_depend_on_what_came_after_it_in_the_batch() -> None:
    late = Event("A", 20 * SECOND, {"k": 0})
    after = [Event("A", n * SECOND, {"k": 0}) for n in range(100, 200)]
    told = []
    for parts in ([[late, *after]], [[late], after]):
        engine = Engine(counting(), retention="1s", attenuation=1.0)
        engine.feed([Event("A", n * SECOND, {"k": 0}) for n in range(100)])
        rows = [row for part in parts for row in engine.feed(part) if row.type == "late"]
        told.append([row.payload["late_by"] for row in rows])
    assert told == [[79 * SECOND - 1]] * 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("32 MB", Retention(LEAST, 32_000_000)),
        ("1.5GB", Retention(LEAST, 1_500_000_000)),
        (" 3kB ", Retention(LEAST, 3_000)),
        ("2 min", Retention(120 * SECOND)),
        (7, Retention(7)),
    ],
)
def test_a_size_or_a_duration(text: str | int, wanted: Retention) -> None:
    assert Retention.parse(text) == wanted
    assert Retention.parse(wanted.value) == wanted


@pytest.mark.parametrize("wrong", ["32 mb", "much", "-1 MB", "MB", 3.5])
def test_anything_else_is_refused_with_what_is_possible(wrong: Any) -> None:
    with pytest.raises(OptionError, match=r"retention.*or a size such as '32 MB'"):
        Engine(counting(), retention=wrong)


def test_the_budget_may_differ_after_a_restart() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(pattern("A B", emits="ab"))
    first = Engine(hierarchy, retention="1 MB")
    first.feed([Event("A", 0), Event("B", 1)])
    Engine(hierarchy, retention="2 MB").restore(first.checkpoint())
    with pytest.raises(ValueError, match=r"retention was as memory allows, is 1 h"):
        Engine(hierarchy, retention="1h").restore(first.checkpoint())
