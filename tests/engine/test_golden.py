"""Figures 7 and 8 of paper *speculation* as a run of the engine: what the detector is handed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from betimes.engine import Engine, Hierarchy
from betimes.model import Event

# A line is: arrival | clock | slack | what the detector is handed | what it had handled before.
# Figure 8 draws the snapshots: when C1 comes, the detector goes back to s2, taken after A0; when C9
# comes, to s10, taken after B8.
FIGURE_8 = """
    A0  |  0 | 0 | A0       |
    A2  |  2 | 0 | A2       | A0
    C1  |  2 | 0 | C1 A2    | A0
    A3  |  3 | 2 |          |
    B4  |  3 | 2 |          |
    A6  |  6 | 2 | A3 B4    | A0 C1 A2
    C5  |  6 | 2 | C5       | A2 A3 B4
    B8  |  6 | 2 |          |
    C7  |  6 | 2 |          |
    A11 | 11 | 6 | A6 C7 B8 | A3 B4 C5
    B10 | 11 | 6 |          |
    A12 | 12 | 6 | B10      | A6 C7 B8
    C9  | 12 | 6 | C9 B10   | A6 C7 B8
"""

ROWS = [[cell.strip() for cell in line.split("|")] for line in FIGURE_8.strip().splitlines()]


@dataclass
class NotBetween:
    """A !B C: a C, and since the last A no B. Tells `handed` what it is handed, and in which state.

    Its state is the last three events it has handled, and that of the pattern.
    """

    handed: list[tuple[str, tuple[str, ...]]]
    last: tuple[str, ...] = ()
    open: int | None = None

    def on_event(self, event: Event) -> Event | None:
        name = f"{event.type}{event.ts}"
        self.handed.append((name, self.last))
        self.last = (*self.last[-2:], name)
        if event.type == "A":
            self.open = event.ts
        elif event.type == "B":
            self.open = None
        elif self.open is not None:
            return Event("match", event.ts, {"from": self.open})
        return None

    def snapshot(self) -> Any:
        return self.last, self.open

    def restore(self, state: Any) -> None:
        self.last, self.open = state


@dataclass
class Recording:
    """An engine that runs the detector of the figures, and what the detector was handed."""

    snapshots: int | str = 1
    handed: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        hierarchy = Hierarchy(clock="A")
        hierarchy.add(
            lambda: NotBetween(self.handed), on=("A", "B", "C"), emits="match", name="A !B C"
        )
        self.engine = Engine(
            hierarchy, attenuation=1 / 3, snapshots=self.snapshots, retraction="on-demand"
        )


def test_the_detector_handles_in_the_order_of_figure_7() -> None:
    recording = Recording()
    for name, clock, slack, handed, _ in ROWS:
        recording.handed.clear()
        recording.engine.feed(event(name))
        names = handed.split()
        assert [name for name, _ in recording.handed][-len(names) :] == names, name
        assert bool(names) == bool(recording.handed), name
        stats = recording.engine.stats["A !B C"]
        assert (stats.clock, stats.slack) == (int(clock), int(slack)), name
    assert stats.replays == 2


def test_the_detector_goes_back_to_the_snapshots_of_figure_8() -> None:
    recording = Recording()
    for name, _, _, handed, before in ROWS:
        recording.handed.clear()
        recording.engine.feed(event(name))
        assert [name for name, _ in recording.handed] == handed.split(), name
        assert [*recording.handed[0][1]] == before.split() if handed else not before, name


def test_the_matches_of_figure_7_come_early_and_right() -> None:
    recording = Recording()
    told = {name: [*recording.engine.feed(event(name))] for name, *_ in ROWS}
    assert [(c.change_type, c.ts, c.payload) for c in told["C1"]] == [("insert", 1, {"from": 0})]
    assert [(c.status, c.ts, c.payload) for c in told["A11"] if c.change_type == "insert"] == [
        ("provisional", 7, {"from": 6})
    ]
    assert not [c for changes in told.values() for c in changes if c.change_type == "delete"]
    last = recording.engine.finish()
    assert [(c.change_type, c.status, c.ts) for c in last] == [("confirm", "final", 7)]


@pytest.mark.parametrize("snapshots", [3, 1000, "speculative", "adaptive"])
def test_fewer_snapshots_hand_more_but_tell_the_same(snapshots: int | str) -> None:
    dense, thin = Recording(), Recording(snapshots)
    for name, *_ in ROWS:
        one, another = (
            [(c.change_type, c.status, c.ts, c.payload) for c in r.engine.feed(event(name))]
            for r in (dense, thin)
        )
        assert one == another, name
    assert len(thin.handed) >= len(dense.handed)


def event(name: str) -> Event:
    parts = re.fullmatch(r"([A-Z])(\d+)", name)
    assert parts, name
    return Event(parts[1], int(parts[2]))
