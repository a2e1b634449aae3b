"""The contract of a host, for everything that runs one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from betimes import Event, Hierarchy
from betimes.engine import CheckpointError, EngineOptions
from betimes.host import Columns, Host, Setup, Tally
from betimes.host.folder import CheckpointFolder, put
from betimes.host.log import ALONE, Around, Entry, Head, LoggedHost, first_head, read_head
from betimes.host.tally import finals_of
from betimes.model.change import LATE, REJECTED
from betimes.model.codec import sealed
from betimes.model.errors import BusyError
from betimes.model.fitting import read_stored, stored
from tests.cli.jobs import run, written
from tests.host import users
from tests.host.users import Rows, setup, tables

OPTIONS: list[dict[str, Any]] = [
    {"attenuation": 0.3},
    {"attenuation": 0.0, "order": "key"},
    {"attenuation": 0.3, "late": "side"},
    {"results": "final"},
]


# The same table in, the same rows out


@pytest.mark.parametrize("user", users.USERS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_user_gives_the_same_rows(user: str, options: dict[str, Any]) -> None:
    given = setup(**options)
    rows = users.USERS[user](given, tables())
    assert rows == users.through_host(given, tables())
    assert sum(row["type"] == REJECTED for row in rows) == 4
    if given.results == "provisional":
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert {row["status"] for row in rows} == {"provisional", "final"}
    else:
        assert {(row["change_type"], row["status"]) for row in rows} == {("insert", "final")}


def test_a_batch_job_gives_what_stands_and_the_same_rejected_rows() -> None:
    given = setup(attenuation=0.3)
    one, many = users.through_batch_job(given, tables()), users.through_host(given, tables())
    assert standing(one) == standing(many)
    aside = [
        [without_number(row) for row in rows if row["type"] == REJECTED] for rows in (one, many)
    ]
    assert aside[0] == aside[1]


def standing(rows: Rows) -> set[str]:
    ids = {kind: {r["match_id"] for r in rows if r["change_type"] == kind and r["type"] == "touch"}
           for kind in ("insert", "delete")}  # fmt: skip
    return ids["insert"] - ids["delete"]


def without_number(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("seq", "match_id")}


JOB = """
[source]
format = "parquet"
path = "events/"
arrival = "seq"
by = "key"
batch_rows = 200
[detect]
hierarchy = "tests.host.users:hierarchy"
attenuation = 0.3
retraction = "on-demand"
[engine]
kind = "local"
[sink]
format = "parquet"
path = "out/"
"""


def test_a_local_run_writes_what_a_slot_gives(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    pq.write_table(pa.concat_tables(tables()), tmp_path / "events" / "all.parquet")
    (tmp_path / "job.toml").write_text(JOB)
    result = run("--quiet", tmp_path / "job.toml")
    assert result.exit_code == 0, result.stderr
    assert written(tmp_path / "out") == users.through_slot(setup(attenuation=0.3), tables())


# Rejected rows


def test_a_rejected_row_has_a_time_only_if_that_is_valid() -> None:
    rows = users.through_host(setup(), tables())
    bad = [row for row in rows if row["type"] == REJECTED]
    valid = tables(bad=False)[0]["ts"][8].as_py()
    assert [row["ts"] for row in bad] == [None, valid, None, 10**15]
    assert {row[name] for row in bad for name in ("detected_at", "slack")} == {None}
    assert [row["cause"] for row in bad] == [
        "the time is missing", "the type is missing", "the time is negative",
        "the type is one of betimes' own",
    ]  # fmt: skip
    assert len({row["match_id"] for row in bad}) == 4


def test_a_time_that_does_not_fit_is_only_in_the_payload() -> None:
    large = pa.table({"ts": pa.array([2**63], pa.uint64()), "type": ["A"], "key": [1], "seq": [0]})
    (row,) = Host(setup()).feed(large).to_pylist()
    assert (row["ts"], row["cause"]) == (None, "the time is beyond int64")
    assert str(2**63) in row["payload"]


# Silence


def events(*rows: tuple[int, str, int]) -> pa.Table:
    ts, types, keys = zip(*rows, strict=True)
    return pa.table({"ts": ts, "type": types, "key": keys, "seq": list(range(len(ts)))})


OPENED = events(
    (1_000, "near", 1), (1_000, "near", 2), (5_000, "ball", 1), (3_000, "hit", 2),
    (9_000, "ball", 2), (8_500, "hit", 1),
)  # fmt: skip
"""The slack is 6,000 then, and the touch at 8,500 cannot settle."""


def finals(table: pa.Table) -> set[int]:
    return {row["ts"] for row in table.to_pylist() if row["status"] == "final"}


def test_silence_moves_the_time_of_the_stream() -> None:
    host = Host(setup(attenuation=1.0))
    host.feed(OPENED, now=1_000)
    assert not len(host.pass_time(1_299, 300))
    assert 8_500 in finals(host.pass_time(1_300, 300))
    assert not len(host.pass_time(1_400, 300)), "counted from the last time on"


def test_with_an_order_by_key_each_key_is_silent_for_itself() -> None:
    host = Host(setup(attenuation=1.0, order="key"))
    host.feed(OPENED, now=1_000)
    host.feed(events((10_000, "ball", 2)), now=1_200)
    assert finals(host.pass_time(1_300, 300)) == {8_500}


def test_what_passed_while_nobody_ran_is_no_silence_if_you_say_so() -> None:
    first = Host(setup(attenuation=1.0))
    first.feed(OPENED, now=1_000)
    for now, settled in ((None, True), (9_000, False)):
        again = Host(setup(attenuation=1.0))
        again.restore(first.save(), now=now)
        assert bool(len(again.pass_time(9_100, 300))) is settled


# Attenuation by load


class Clock:
    """A machine that is never busy: time passes only between batches."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def steered(order: str) -> tuple[list[float], Rows]:
    given, clock = setup(order=order), Clock()
    identity = given.identity()
    host = LoggedHost(given, identity, slot=0, clock=clock)
    head, rows, values = first_head(identity), [], []
    for table in tables(4_000, 200, bad=False):
        clock.now += 1.0
        values.append(head.attenuation)
        fed = host.feed(head, Entry(head.batches, head.attenuation, [users.as_bytes(table)]))
        assert {each.attenuation for each in host.engine.stats.values()} == {head.attenuation}
        head = fed.head
        rows += fed.changes.to_pylist()
    return values, rows


@pytest.mark.parametrize("order", ["shared", "key"])
def test_an_adaptive_slot_speculates_when_it_has_time(order: str) -> None:
    """Only what was handled too early is taken back, so a wait of 1 would take back less."""
    values, rows = steered(order)
    assert values[:4] == [1.0, 1.0, 0.5, 0.25]
    assert values[-1] == 0.0
    patient = users.through_host(setup(order=order, attenuation=1.0), tables(4_000, bad=False))
    assert deletes(rows) > deletes(patient)
    eager = users.through_host(setup(order=order, attenuation=0.0), tables(4_000, bad=False))
    assert deletes(rows) <= deletes(eager)


@pytest.mark.parametrize(
    ("around", "busy"),
    [
        (Around(elapsed=1.0, interval=2.0), 0.5),
        (Around(elapsed=1.9, interval=2.0), 0.95),
        (Around(elapsed=5.0, interval=2.0), 1.0),
        (Around(elapsed=0.3, interval=0.0, floor=0.2), 1 / 3),
        (Around(elapsed=4.0, interval=0.0, floor=0.2), 0.95),
        (Around(busy=0.7, elapsed=1.0, interval=2.0), 0.7),
        (Around(), 0.0),
    ],
)
def test_a_batch_that_takes_too_long_already_is_the_last_one_that_speculates(
    around: Around, busy: float
) -> None:
    given, clock = setup(), Clock()
    identity = given.identity()
    host, head = LoggedHost(given, identity, slot=0, clock=clock), first_head(identity)
    for number, table in enumerate(tables(1_000, 200, bad=False)):
        clock.now += 1.0
        entry = Entry(head.batches, head.attenuation, [users.as_bytes(table)])
        head = host.feed(head, entry, around if number == 4 else ALONE).head
    assert number == 4
    assert host.busy_factor == pytest.approx(busy)
    assert (head.attenuation == 1.0) == (busy > 0.9)


class Worker(Clock):
    """A machine on which every batch takes a while."""

    def __call__(self) -> float:
        self.now += 0.3
        return self.now


def crowded(sizes: list[int], busy: float = 0.0) -> tuple[list[float], Head]:
    """The attenuation of each batch of so many hundred rows; the load is told from the ninth on."""
    given, clock = setup(), Worker()
    identity = given.identity()
    host, head = LoggedHost(given, identity, slot=0, clock=clock), first_head(identity)
    stream = tables(100 * sum(sizes), 100, bad=False)
    values = []
    for number, size in enumerate(sizes):
        clock.now += 1.4
        parts = [users.as_bytes(stream.pop(0)) for _ in range(size)]
        entry = Entry(head.batches, head.attenuation_for(100 * size), parts, seen=100 * size)
        values.append(entry.attenuation)
        head = host.feed(head, entry, Around(busy if number > 8 else 0.0, interval=2.0)).head
        (works,) = host.engine.stats.values()
        assert works.attenuation == entry.attenuation
    return values, head


def test_a_batch_that_there_is_no_room_for_is_handled_with_attenuation_1() -> None:
    """At once, by its rows alone, so that it is if it runs again; then things go on as before."""
    values, head = crowded([1] * 8 + [20, 5, 1, 1])
    assert values[8] == 1.0
    assert max(values[5:8] + values[9:]) < 0.2
    assert head.attenuation_for(int(head.room)) < head.attenuation_for(int(head.room) + 1)


def test_there_is_more_room_if_there_was_time_to_spare_without_speculation() -> None:
    values, _ = crowded([1] * 8 + [20] * 4)
    assert values[8:10] == [1.0, 1.0]
    assert max(values[10:]) < 0.2
    values, _ = crowded([1] * 8 + [20] * 4, busy=0.85)
    assert values[8:] == [1.0] * 4


@pytest.mark.parametrize("around", [ALONE, Around(interval=0.0, floor=0.2), Around(interval=1e9)])
def test_there_is_room_for_any_batch_if_nothing_says_otherwise(around: Around) -> None:
    """Without an interval, or if a host works so little that this says nothing."""
    given, clock = setup(), Worker() if around.interval < 1e9 else Clock()
    identity = given.identity()
    host, head = LoggedHost(given, identity, slot=0, clock=clock), first_head(identity)
    for table in tables(600, 100, bad=False):
        clock.now += 1.0
        entry = Entry(head.batches, head.attenuation, [users.as_bytes(table)], seen=100)
        head = host.feed(head, entry, around).head
    assert head.attenuation < 1.0
    assert head.attenuation_for(10**9) == head.attenuation


def deletes(rows: Rows) -> int:
    return sum(row["change_type"] == "delete" for row in rows)


# Whose state it is


def test_a_state_of_other_settings_is_refused_in_words() -> None:
    given = setup()
    other = Setup(given.hierarchy, given.options.with_(late="side"), Columns(time="at"))
    note = stored(first_head(given.identity()))
    with pytest.raises(CheckpointError) as refused:
        read_head(other.identity(), note)
    lines = str(refused.value).splitlines()
    assert lines[0] == "the checkpoint belongs to a job with different settings:"
    assert "  options: late was repair, is side" in lines
    assert "  columns: time was ts, is at" in lines
    assert "  columns: arrival was seq, is order of the rows" in lines
    assert "start with a new checkpoint location" in lines[-1]


def test_options_that_no_state_depends_on_may_change() -> None:
    given, other = setup(attenuation=0.3), setup(attenuation=1.0, errors="skip")
    note = stored(first_head(given.identity()))
    assert read_head(other.identity(), note).token == first_head(given.identity()).token


def test_a_state_of_an_older_format_or_none_is_refused() -> None:
    older = sealed(msgspec.msgpack.encode({"identity": "{}", "token": b"", "attenuation": 1.0}))
    with pytest.raises(CheckpointError, match=r"another version.*format is 1.*finish the stream"):
        read_head(setup().identity(), older)
    with pytest.raises(CheckpointError, match=r"it is damaged or not a checkpoint.*; do this"):
        read_stored(sealed(b"\xc1"), Head, 2, "it", "do this")


# One run at a time


def test_a_folder_is_held_by_one_run(tmp_path: Path) -> None:
    first, second = (CheckpointFolder(tmp_path / "checkpoint") for _ in range(2))
    first.acquire()
    with pytest.raises(BusyError, match=r"another run is using the checkpoint .*checkpoint; wait"):
        second.acquire()
    first.release()
    second.acquire()
    second.write("note", b"one")
    second.write("note", b"two")
    assert second.read("note") == b"two"
    assert second.read("nothing") is None
    second.release()
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == {"lock", "note"}


def test_a_folder_that_cannot_be_one_says_so(tmp_path: Path) -> None:
    put(tmp_path / "file", b"")
    with pytest.raises(CheckpointError, match=r"cannot be written.*choose another checkpoint"):
        CheckpointFolder(tmp_path / "file").acquire()


# Counting


def test_columns_are_counted_as_rows_would_be() -> None:
    rows = users.through_host(setup(attenuation=0.0, late="side"), tables(4_000))
    table = pa.Table.from_pylist(rows)
    real = [row for row in rows if row["type"] not in (LATE, REJECTED)]
    found = [row for row in real if row["change_type"] == "insert"]
    settled = [r for r in real if r["status"] == "final" and r["change_type"] != "delete"]
    assert Tally.of(table) == Tally(
        inserted=len(found),
        confirmed=sum(row["change_type"] == "confirm" for row in real),
        deleted=deletes(real),
        final=len(settled),
        late=sum(row["type"] == LATE for row in rows),
        rejected=4,
        waited=sum(max(0, row["detected_at"] - row["ts"]) for row in found),
    )
    assert finals_of(table) == {"Touches": len(settled)}
    assert Tally.of(table.slice(0, 9)) + Tally.of(table.slice(9)) == Tally.of(table)
    assert Tally.of(table.slice(0, 0)) == Tally()


def test_time_passes_for_keys_in_the_order_of_their_arrival() -> None:
    """Not in that of a set, which differs from process to process."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(lambda e: Event("o", e.ts, {"k": e["k"]}), on="A", emits="o", name="d")
    options = EngineOptions.of(by="k", order="key", attenuation=1.0)
    host = Host(Setup(hierarchy, options, Columns()))
    keys = [f"key{number}" for number in (3, 1, 2, 5, 4)]
    table = pa.table({"ts": [100] * 5, "type": ["A"] * 5, "k": keys})
    rows = [*host.feed(table, now=1000).to_pylist(), *host.pass_time(9000, 1000).to_pylist()]
    told = [msgspec.json.decode(row["payload"])["k"] for row in rows]
    assert told[-5:] == keys
