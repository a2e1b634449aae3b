"""What the contenders must find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.spark_pipeline.by_hand import BOUND

Match = tuple[int, int, int]


def expected(files: Path, name: str) -> set[Match]:
    """The matches of the stream sorted as a whole, up to the bound if the contender has one."""
    rows = pq.read_table(files).to_pandas()
    looked_at = rows[rows["type"] != "X"] if name == "filtered" else rows
    newest = looked_at.groupby("key")["ts"].max().to_dict()
    found = set()
    since: dict[int, int] = {}
    rows = rows[rows["type"] != "X"].sort_values(["ts", "seq"], kind="stable")
    for ts, type, key in zip(rows["ts"], rows["type"], rows["key"], strict=True):
        if type == "A":
            since[key] = ts
            continue
        first = since.pop(key, None)
        released = name == "detect" or ts <= newest[key] - BOUND
        if type == "C" and first is not None and released:
            found.add((int(key), int(first), int(ts)))
    return found


def found_by(name: str, rows: list[Any]) -> set[Match]:
    """The matches in the rows of a contender; changes are folded."""
    if name != "detect":
        return {(row.key, row.first, row.last) for row in rows}
    standing: dict[str, Match] = {}
    for row in sorted(rows, key=lambda row: (row.slot, row.seq)):
        if row.change_type == "delete":
            del standing[row.match_id]
        elif row.change_type == "insert" and row.type == "match":
            payload = json.loads(row.payload)
            standing[row.match_id] = (payload["C.key"], payload["A.ts"], payload["C.ts"])
    return set(standing.values())


def check(name: str, files: Path, rows: list[Any]) -> None:
    if name == "ceiling":
        return
    got, wanted = found_by(name, rows), expected(files, name)
    if name == "detect":
        # The stream has not ended: not everything of its last instants has been released.
        end = max((last for _, _, last in wanted), default=0) - 2 * BOUND
        got, wanted = ({match for match in each if match[2] <= end} for each in (got, wanted))
    if got != wanted:
        raise RuntimeError(
            f"expected {name} to find the {len(wanted)} matches in {files}, but it misses "
            f"{len(wanted - got)} of them and found {len(got - wanted)} others"
        )
