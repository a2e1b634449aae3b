"""How good the detectors are: compares what they found with what happened.

The simulator records what happened (`simulator.truth`). A detection *finds* a row of the truth if
it has the same kind and player, and their times differ by no more than a tolerance. Each row is
found at most once and each detection finds at most one, the nearest in time first. Truth that no
detection finds was *missed*; detections that find nothing are *false*.

The tolerance is 20 ms: a contact takes 5 ms and the ball reports every half millisecond, so a hit
is dated to within a few samples, and no player hits the ball twice within 20 ms. The time at which
a ball crosses a line is less certain: a ball that hardly moves, at 0.1 m/s, takes 50 ms to cross
the half centimetre by which its position is uncertain. So the tolerance is 100 ms there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from betimes.model import Event
from betimes.model.change import Change, fold

TOLERANCE = 20_000
"""Microseconds."""
LINE_TOLERANCE = 100_000
"""The tolerance for a ball that crosses a line."""
KINDS = (
    "hit", "possession", "pass", "unsuccessful_pass", "double_pass", "shot", "shot_on_goal",
    "blocked_shot", "save", "goal", "out", "throw_in", "corner", "goal_kick", "kick_off",
)  # fmt: skip
"""The kinds of truth that the hierarchy detects under the same name."""
_OTHER = {
    "pass": "to",
    "unsuccessful_pass": "to",
    "double_pass": "with",
    "blocked_shot": "shooter",
    "save": "shooter",
}
"""The payload column in which a detection names the second player."""


@dataclass(frozen=True)
class Score:
    """How many of one kind were found, missed, and false."""

    kind: str
    found: int
    missed: int
    false: int

    @property
    def recall(self) -> float:
        """The share of what happened that was found."""
        return self.found / (self.found + self.missed) if self.found + self.missed else 1.0

    @property
    def false_share(self) -> float:
        """The share of what was detected that did not happen."""
        return self.false / (self.found + self.false) if self.found + self.false else 0.0


@dataclass(frozen=True)
class Occurrence:
    """A row of the truth or a detection, as far as they are compared."""

    kind: str
    ts: int
    player: str | None
    other: str | None = None


def detected(changes: Iterable[Change]) -> list[Event]:
    """The events that remain after all changes, in order of time."""
    found = fold(changes)
    events = (Event(type, ts, json.loads(text)) for (type, ts, text) in found.elements())
    return sorted(events, key=lambda event: event.ts)


def score(events: Iterable[Event], truth: pa.Table) -> dict[str, Score]:
    """Compare detected events with the truth, kind by kind.

    >>> truth = pa.table(
    ...     {
    ...         "kind": ["hit", "hit"],
    ...         "ts": [1_000, 900_000],
    ...         "player": ["A1", "B2"],
    ...         "other": [None, None],
    ...     }
    ... )
    >>> events = [Event("hit", 1_500, {"player": "A1"}), Event("hit", 900_000, {"player": "A1"})]
    >>> score(events, truth)["hit"]
    Score(kind='hit', found=1, missed=1, false=1)
    """
    happened = _grouped(_from_truth(truth))
    found = _grouped(_from_events(events))
    return {kind: _matched(kind, happened.get(kind, []), found.get(kind, [])) for kind in KINDS}


def table(scores: Mapping[str, Score]) -> pa.Table:
    """Scores as a table, one row per kind."""
    rows = scores.values()
    return pa.table(
        {
            "kind": [row.kind for row in rows],
            "found": [row.found for row in rows],
            "missed": [row.missed for row in rows],
            "false": [row.false for row in rows],
        }
    )


def differences(events: Iterable[Event], truth: pa.Table) -> Iterator[tuple[str, Occurrence]]:
    """What was missed and what is false, one by one, to look for the reason."""
    happened = _grouped(_from_truth(truth))
    found = _grouped(_from_events(events))
    for kind in KINDS:
        mine, theirs = happened.get(kind, []), found.get(kind, [])
        pairs = _pairs(kind, mine, theirs)
        yield from (("missed", row) for n, row in enumerate(mine) if n not in pairs)
        yield from (("false", row) for n, row in enumerate(theirs) if n not in pairs.values())


def _matched(kind: str, happened: list[Occurrence], found: list[Occurrence]) -> Score:
    pairs = len(_pairs(kind, happened, found))
    return Score(kind, pairs, len(happened) - pairs, len(found) - pairs)


def _pairs(kind: str, happened: list[Occurrence], found: list[Occurrence]) -> dict[int, int]:
    """Rows of the truth with the detections that find them, nearest in time first."""
    tolerance = LINE_TOLERANCE if kind in ("out", "goal") else TOLERANCE
    close = sorted(
        (abs(row.ts - other.ts), n, m)
        for n, row in enumerate(happened)
        for m, other in enumerate(found)
        if abs(row.ts - other.ts) <= tolerance
        and (row.player, row.other) == (other.player, other.other)
    )
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, n, m in close:
        if n not in pairs and m not in taken:
            pairs[n] = m
            taken.add(m)
    return pairs


def _grouped(rows: Iterable[Occurrence]) -> dict[str, list[Occurrence]]:
    groups: dict[str, list[Occurrence]] = {}
    for row in rows:
        groups.setdefault(row.kind, []).append(row)
    return groups


def _from_truth(truth: pa.Table) -> Iterator[Occurrence]:
    for row in truth.select(["kind", "ts", "player", "other"]).to_pylist():
        other = row["other"] if row["kind"] in _OTHER else None
        yield Occurrence(row["kind"], row["ts"], row["player"], other)


def _from_events(events: Iterable[Event]) -> Iterator[Occurrence]:
    for event in events:
        if event.type in KINDS:
            other = event[_OTHER[event.type]] if event.type in _OTHER else None
            ts = event["began"] if event.type == "double_pass" else event.ts
            yield Occurrence(event.type, ts, event["player"], other)
