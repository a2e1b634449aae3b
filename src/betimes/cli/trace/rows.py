"""The rows of `betimes trace`: what each arrival did, and which snapshots a detector would keep."""

from __future__ import annotations

import msgspec

from betimes.cli.trace.arrivals import parse


class Row(msgspec.Struct, frozen=True):
    """What one arrival did. These fields, in this order, are the JSON format."""

    event: str | None
    clock: int | None
    slack: int
    released: list[str]
    replayed: list[str]
    settled: list[str]
    buffer: list[str]
    late: bool
    """Something later had settled when the event arrived."""


class SnapshotRow(Row, frozen=True):
    """A row with the snapshots of the detector behind the unit (`--snapshots`)."""

    snapshot: str | None
    """The snapshot that the detector goes back to."""
    snapshots: list[str]
    """The snapshots kept: each is the state of the detector before the event at that time."""


class Traced(msgspec.Struct, frozen=True):
    """A row, and what the table shows in addition."""

    row: Row
    unsettled: int = 0
    """How many events at the front of the buffer are already released."""
    aside: bool = False
    """The event is too far ahead to be trusted yet; later events decide."""
    rejected: list[str] = []


def with_snapshots(traced: Traced) -> Traced:
    """Name the snapshots that the paper keeps: one before each event released but not settled.

    When an event lands among those, the detector goes back to the state before the next one in
    order, and the replay takes new snapshots in place of the old ones.
    """
    row = traced.row
    restored = _snapshot(row.replayed[1]) if len(row.replayed) > 1 else None
    kept = [_snapshot(event) for event in row.buffer[: traced.unsettled]]
    more = SnapshotRow(**msgspec.structs.asdict(row), snapshot=restored, snapshots=kept)
    return msgspec.structs.replace(traced, row=more)


def _snapshot(event: str) -> str:
    """The name of the snapshot before an event.

    >>> _snapshot("A12"), _snapshot("s1@12")
    ('s12', 's12')
    """
    return f"s{next(parse([event])).ts}"
