"""Payloads that are plain numbers: kept as words, and what comes of them is what rows give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from betimes import Engine, Event, EventBatch, Hierarchy, pattern
from betimes.engine.news.digests import Digests, digest_all
from betimes.engine.news.digests.columns import halves_of, shape_of, spelled
from betimes.engine.news.digests.few import identify
from betimes.engine.stages.columns import waiting
from betimes.engine.stages.columns.below import Known
from betimes.engine.stages.columns.shelves import Numbers
from betimes.engine.stages.columns.store import Store
from betimes.engine.stages.columns.waiting import CodedRoom
from betimes.model.arrays import ArrayBatch, in_arrays
from betimes.patterns.kernel import ARRIVAL, AT, N_EVENT

KINDS: dict[str, tuple[Any, list[Any]]] = {
    "i": (pa.int64(), [-(2**63), 2**63 - 1, 0, 5]),
    "s": (pa.int16(), [-7, 7, 0, 32767]),
    "u": (pa.uint64(), [2**64 - 1, 0, 1, 2**63]),
    "f": (pa.float64(), [0.5, -0.0, float("inf"), float("nan")]),
    "g": (pa.float32(), [0.5, 0.1, 1e30, float("nan")]),
}


def numbers(count: int, seed: int, types: str = "AB") -> EventBatch:
    rng = np.random.default_rng(seed)
    columns = {
        name: pa.array([values[n] for n in rng.integers(0, len(values), count)], kind)
        for name, (kind, values) in KINDS.items()
    }
    codes = rng.integers(0, len(types), count).astype(np.int32)
    return EventBatch(np.arange(count) + 1000 * seed, codes, tuple(types), pa.table(columns))


def test_a_shelf_of_numbers_gives_back_what_was_put_on_it() -> None:
    store, known = Store(), dict[int, str]()
    for seed, types in enumerate(["AB", "BA", "C", "ABC"] * 3):
        batch = in_arrays(numbers(7 + 40 * seed, seed, types))
        assert isinstance(batch, ArrayBatch)
        rows = np.flatnonzero(np.random.default_rng(seed).random(len(batch)) < 0.7)
        found = store.put(batch, rows)
        known |= dict(zip(found.tolist(), map(repr, batch.take(rows).rows()), strict=True))
        if seed == 6:
            before = int(np.median([*known]))
            bound = np.array([number for number in known if number % 3 == 0])
            store.forget(before, bound)
            known = {n: known[n] for n in known if n >= before or n % 3 == 0}
    asked = np.random.default_rng(1).permutation([*known])[:200]
    assert isinstance(store.find(asked), ArrayBatch)
    assert [*map(repr, store.rows(asked))] == [known[number] for number in asked.tolist()]
    block = store.block(asked.reshape(2, 100))
    assert block is not None
    assert block.rows[0].tolist() == asked.reshape(2, 100).tolist()


def test_a_part_of_plain_numbers_is_cut_from_arrays() -> None:
    batch = numbers(50, 1)
    assert isinstance(batch.payload, pa.Table)
    bare, payload = batch.without_payload().part(10, 20), batch.payload.slice(10, 10)
    expected = EventBatch(bare.ts, bare.codes, bare.types, payload).rows()
    part = batch.part(10, 20)
    assert isinstance(part, ArrayBatch)
    assert [*map(repr, part.rows())] == [*map(repr, expected)]
    assert part.payload == payload or repr(part.payload) == repr(payload)  # NaN equals nothing
    twice = EventBatch.concat([batch, batch]).part(10, 20)
    assert not isinstance(twice, ArrayBatch), "a part of two chunks would take a copy of both"
    assert [*map(repr, twice.rows())] == [*map(repr, expected)]


def test_a_null_goes_to_another_shelf() -> None:
    store = Store()
    plain = EventBatch(np.array([1]), np.zeros(1, np.int32), ("A",), pa.table({"v": [1]}))
    gaps = pa.table({"v": pa.array([None], pa.int64())})
    (one,) = store.put(in_arrays(plain))
    (two,) = store.put(in_arrays(EventBatch(plain.ts, plain.codes, plain.types, gaps)))
    assert [event["v"] for event in store.find(np.array([two, one]))] == [None, 1]
    assert store.block(np.array([[two], [one]])) is None


def test_digests_of_words_are_those_of_rows() -> None:
    batch, digests = in_arrays(numbers(50, 1)), Digests("d")
    assert isinstance(batch, ArrayBatch)
    keys = [*range(50)]
    rows = zip(batch.rows(), keys, strict=True)
    expected = [digests.digest("t", event.ts, key, event.payload) for event, key in rows]
    pieces, ts = halves_of(keys), batch.ts
    assert spelled(digest_all(digests, "t", ts, pieces, batch.arrays)) == expected


@pytest.mark.parametrize("gaps", [False, True], ids=["all are kept", "some were forgotten"])
def test_few_outputs_have_the_fields_and_digests_of_rows(gaps: bool) -> None:
    whole = numbers(50, 1)
    assert isinstance(whole.payload, pa.Table)
    digests = Digests("d")
    batch = in_arrays(
        EventBatch(whole.ts, whole.codes, whole.types, whole.payload.drop_columns(["u"]))
    )
    assert isinstance(batch, ArrayBatch)
    shelf, known = Numbers(batch.schema), 256 * np.arange(50)
    shelf.put(known, batch, None)
    if gaps:
        known = known[::3]
        shelf.forget(50 * 256, known)
    events = batch.take(known // 256).rows()
    expected = [digests.digest("t", e.ts, key, e.payload) for key, e in enumerate(events)]
    shape = shape_of(digests, "t", (*batch.arrays,), tuple(a.dtype for a in batch.arrays.values()))
    rows, found = np.empty((len(known), 6), np.int64), np.empty((2, len(known)), np.uint64)
    text = np.empty(24 * len(known), np.uint8)
    identify(
        *shelf.words(), known[np.newaxis], np.arange(1, 7), shape.floats, shape.template,
        shape.order, halves_of([*range(len(known))]), np.arange(len(known)), rows, found, text,
    )  # fmt: skip
    assert spelled(found) == expected
    assert text.tobytes().decode() == "".join(expected)
    assert rows[:, 0].tolist() == [event.ts for event in events]
    assert rows[:, 2].tolist() == [event["i"] for event in events]


@pytest.mark.parametrize("step", [1, 3], ids=["every row waits", "some rows wait"])
@pytest.mark.parametrize("spare", [0, 20])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_found_whatever_was_dropped(
    monkeypatch: pytest.MonkeyPatch, step: int, spare: int, seed: int
) -> None:
    monkeypatch.setattr(waiting, "SPARE", spare)
    rng = np.random.default_rng(seed)
    room, again = CodedRoom(2, Known()), CodedRoom(2, Known())
    held, row = list[int](), 0
    for turn in range(60):
        size = int(rng.integers(0, 300 if turn % 7 == 0 else 6))
        new = np.arange(row, row + step * size, step)
        row = int(new[-1]) + step if len(new) else row
        events: Any = np.tile(new, (N_EVENT, 1))
        if turn % 2:  # written to where they will wait
            spare_room = room.spare(size + turn)[:, :size]
            spare_room[:] = events
            events = spare_room
        room.put(new - row, row, events, np.tile(new / 2, (2, 1)))
        held += new.tolist()
        taken = rng.permutation(held)[: rng.integers(0, 50)].astype(np.int64)
        # The unit also hands out what the pattern does not take.
        asked = rng.permutation([*taken.tolist(), *[row + 1000] * (turn % 2)]).astype(np.int64)
        found, rows = room.take(asked, -asked)
        assert sorted(rows.tolist()) == sorted(taken.tolist())
        assert found.events[ARRIVAL].tolist() == rows.tolist()
        assert found.events[AT].tolist() == (-rows).tolist()
        assert found.values.tolist() == [(rows / 2).tolist()] * 2
        held = [number for number in held if rng.random() < 0.8]
        room.trim(rng.permutation([*held, row + 1000]))
        assert len(room) <= max(2 * (len(held) + 1) + spare, len(held))
        if turn == 30:
            again.resume(*room.state_of())
            room = again


@pytest.mark.parametrize("attenuation", [1.0, 0.3])
@pytest.mark.parametrize("select", [None, {"k": "A.key", "w": "C.ts"}, {"v": "A.v + C.v"}])
@pytest.mark.parametrize("keys", [[0, 1, 2], [-1, 2**40, 2**62], [0.0, 1.0, 2.5]])
def test_tables_of_numbers_give_what_rows_give(
    attenuation: float, select: dict[str, str] | None, keys: list[Any]
) -> None:
    rng = np.random.default_rng(3)
    count = 1500
    ts = np.arange(count) * 10 - rng.integers(0, 300, count) + 300
    codes = rng.integers(0, 4, count).astype(np.int32)
    key, value = np.array(keys)[rng.integers(0, 3, count)], rng.random(count)
    table = pa.table({"key": pa.array(key), "v": pa.array(value)})
    stream = EventBatch(ts, codes, ("X", "A", "B", "C"), table)
    hierarchy = Hierarchy(clock="X")
    hierarchy.add(pattern("A !(A|B) C", by="key", emits="hit", select=select))
    by, again = "k" if select and "k" in select else None, {"again": "type == 'hit'"}
    hierarchy.add(pattern("hit again", define=again, by=by, emits="twice"))

    def run(batches: list[Any]) -> list[Any]:
        engine = Engine(hierarchy, attenuation=attenuation)
        changes = [change for batch in batches for change in engine.feed(batch)]
        return [*changes, *engine.finish()]

    for size in (40, 400):
        cut = [stream[low : low + size] for low in range(0, count, size)]
        rows: list[list[Event]] = [batch.rows() for batch in cut]
        found = run(cut)
        assert len(found) > 100
        assert [*map(repr, found)] == [*map(repr, run(rows))]
