"""Readings of several keys or slots, joined into one per detector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from betimes.engine import DetectorStats


def together(readings: Iterable[DetectorStats]) -> list[DetectorStats]:
    """One reading per detector, from those of several keys or slots.

    Counts are added up. The clock is the one that is furthest behind, slack and delays are the
    largest, and the attenuation is the mean. Mean times are weighted by the number of events
    handled.
    """
    groups: dict[str, list[DetectorStats]] = {}
    for reading in readings:
        groups.setdefault(reading.detector, []).append(reading)
    return [_joined(group) for group in groups.values()]


_SUMS = (
    "buffered", "waiting", "remembered", "history_bytes", "released", "handled", "replays",
    "replayed", "snapshots", "snapshot_bytes", "retracted", "late", "errors", "busy", "busy_share",
)  # fmt: skip


def _joined(group: list[DetectorStats]) -> DetectorStats:
    if len(group) == 1:
        return group[0]
    clocks = [reading.clock for reading in group if reading.clock is not None]
    several: Mapping[str, object] = {
        "clock": min(clocks, default=None),
        "slack": max(reading.slack for reading in group),
        "delays": largest(reading.delays for reading in group),
        "late_by": max(reading.late_by for reading in group),
        "attenuation": sum(reading.attenuation for reading in group) / len(group),
        "busy_factor": max(reading.busy_factor for reading in group),
        "latency_provisional": _mean((r.latency_provisional, r.handled) for r in group),
        "latency_final": _mean((r.latency_final, r.handled) for r in group),
        "how": next((reading.how for reading in group if reading.how), ""),
        "parts": _added([reading.parts for reading in group]),
    }
    sums = {name: sum(getattr(reading, name) for reading in group) for name in _SUMS}
    return msgspec.structs.replace(group[0], **several, **sums)


def largest(readings: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """By name, the largest of several readings."""
    found: dict[str, int] = {}
    for reading in readings:
        found |= {name: max(value, found.get(name, 0)) for name, value in reading.items()}
    return found


def _added(readings: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The counts of each part, added up."""
    found: dict[str, dict[str, float]] = {}
    for parts in readings:
        for name, counts in parts.items():
            sums = found.setdefault(name, {})
            sums |= {what: count + sums.get(what, 0) for what, count in counts.items()}
    return found


def _mean(weighted: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
