"""How much to run, and what all runs have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from betimes import Change

Readings = dict[str, dict[str, str]]
Found = Counter[tuple[str, int, str]]


@dataclass(frozen=True)
class Size:
    """How much to run."""

    events: int
    rounds: int

    @classmethod
    def of(cls, events: int, *, quick: bool) -> Size:
        return cls(min(events, 40_000), 2) if quick else cls(events, 7)


def check_same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise RuntimeError(f"expected {what} to give the same final result as the other runs")


def net(changes: Sequence[Change]) -> int:
    kinds = Counter(change.change_type for change in changes)
    return kinds["insert"] - kinds["delete"]
