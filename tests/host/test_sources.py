"""A host whose stream has several sources, each with its own clock."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from betimes import Hierarchy, pattern
from betimes.engine import EngineOptions
from betimes.host import Columns, Host, Setup
from betimes.model.change import LATE, REJECTED


def host(columns: Columns | None = None, source: str = "p", **options: Any) -> Host:
    pairs = Hierarchy(clock="*")
    pairs.add(pattern("A B", emits="pair"))
    given = EngineOptions.of(
        {"attenuation": 1.0, "slack": 0, "late": "side", "source": source} | options
    )
    return Host(Setup(pairs, given, columns or Columns()))


def table(*rows: tuple[str | None, int, int | None]) -> pa.Table:
    types, ts, sources = zip(*rows, strict=True)
    return pa.table({"type": pa.array(types), "ts": ts, "p": pa.array(sources, pa.int64())})


def told(rows: pa.Table) -> list[tuple[str, int | None]]:
    return [(row["type"], row["ts"]) for row in rows.to_pylist()]


def test_the_sources_of_a_table_may_come_as_blocks() -> None:
    """Source 2 is not known yet when source 1 has come to 900, but it is in the same table."""
    one = host()
    rows = one.feed(table(("A", 100, 1), ("C", 900, 1), ("B", 50, 2), ("A", 60, 2), ("B", 70, 2)))
    assert told(rows) == [("pair", 70)]
    assert told(one.finish()) == []
    assert LATE not in dict(told(rows))


def test_a_row_without_a_source_is_rejected() -> None:
    one = host()
    assert told(one.feed(table(("A", 100, 1), ("B", 101, None)))) == [(REJECTED, 101)]


def test_a_source_that_is_silent_by_the_wall_clock_is_not_waited_for() -> None:
    one = host()
    one.feed(table(("C", 0, 1), ("C", 0, 2)), now=0)
    one.feed(table(("A", 10, 1), ("B", 20, 1)), now=4_000)
    one.pass_time(4_000, 5_000)
    assert one.engine.stats["pair"].waits_for == 2
    saved = one.save()
    other = host()
    other.restore(saved)
    for each in (one, other):
        each.pass_time(5_000, 5_000)
        assert each.engine.stats["pair"].waits_for == 1
        assert told(each.feed(table(("C", 30, 1)), now=5_500)) == [("pair", 20)]


def test_detectors_do_not_see_columns_that_were_added_for_ordering() -> None:
    own = "_betimes_partition", "_betimes_arrival"
    one = host(Columns(arrival=own[1]), source=own[0])
    rows = table(("B", 20, 1), ("A", 10, 1), (None, 5, 1)).rename_columns(["type", "ts", own[0]])
    rows = one.feed(rows.append_column(own[1], pa.array([2, 1, 3])))
    found = {row["type"]: row["payload"] for row in rows.to_pylist()}
    assert set(found) == {"pair", REJECTED}
    assert "betimes" not in str(found)
