"""Every interleaving of messages gives what windows that run alone give.

`BETIMES_INTERLEAVINGS` says how many are tried; more than the default is for a search.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from betimes.model import Event
from betimes.model.detector import Maker
from betimes.testing.windowing import Arrival, World
from betimes.windows.operators import OfAggregates, OfWhole, Operator, PerWindow
from betimes.windows.schedules import SCHEDULES
from tests.windows.material import OPERATORS, WINDOWS, truth

COUNT = int(os.environ.get("BETIMES_INTERLEAVINGS", "500"))
PIECES = 20


def operator(name: str, by: str | None) -> Callable[[], Operator]:
    given = OPERATORS[name]
    if isinstance(given, type):
        return lambda: PerWindow(Maker(given), "tested")
    if name == "totals":
        return lambda: OfAggregates(given, "made", by, "tested")
    return lambda: OfWhole(given, "arrow", "made", by, "tested")


def spread(chance: random.Random) -> int:
    return chance.choice([0, 3, 12])


def stream(chance: random.Random, by: str | None) -> tuple[list[list[Arrival]], list[Event]]:
    """Batches in disorder, in which some events are taken back, and the events that stay."""
    ts = 0
    arriving: list[tuple[int, int, Arrival]] = []
    for number in range(chance.randrange(5, 45)):
        ts += chance.choice([0, 1, 1, 2, 5])
        event = Event("A", ts, {"k": chance.randrange(3), "v": chance.randrange(4)})
        key, place = event["k"] if by else None, (ts, 0, number)
        comes = ts + chance.randrange(spread(chance) + 1)
        arriving.append((comes, number, (key, place, event)))
        if chance.random() < 0.1:
            arriving.append((comes + chance.randrange(20), number, (key, place, None)))
    arriving.sort(key=lambda item: item[:2])
    gone = {place for _, _, (_, place, event) in arriving if event is None}
    stay = {p: e for _, _, (_, p, e) in arriving if e is not None and p not in gone}
    arrivals = [item[2] for item in arriving]
    size = chance.choice([1, 1, 2, 5, 12])
    batches = [arrivals[low : low + size] for low in range(0, len(arrivals), size)]
    return batches, [stay[place] for place in sorted(stay)]


def world(chance: random.Random, seed: int) -> tuple[World, str, str, str | None]:
    shape, name = chance.choice([*WINDOWS]), chance.choice([*OPERATORS])
    by = chance.choice([None, "k"])
    high = chance.choice([0, 5, 50, 500])
    made = World(
        WINDOWS[shape], operator(name, by), instances=chance.choice([1, 2, 4, 16]),
        schedule=chance.choice([*SCHEDULES, lambda number, _open: number % 7 % len(_open)]),
        snapshots=chance.choice([1, 2, 5, 1000, "adaptive"]), seed=seed, transit=(0, high),
        cost=lambda _name, _message: chance.randrange(1 + high // 2),
    )  # fmt: skip
    return made, shape, name, by


def check(seed: int) -> World:
    chance = random.Random(seed)
    made, shape, name, by = world(chance, seed)
    batches, stay = stream(chance, by)
    made.run(batches)
    expected = truth(WINDOWS[shape], OPERATORS[name], stay, by)
    assert made.merger.found() == expected, (seed, shape, name)
    assert made.sent_twice() == [], (seed, shape, name)
    return made


@pytest.mark.parametrize("piece", range(PIECES))
def test_every_interleaving_gives_the_same_result(piece: int) -> None:
    for seed in range(piece, COUNT, PIECES):
        check(seed)


def test_the_interleavings_reach_everything() -> None:
    kinds: dict[str, int] = {}
    counts: dict[str, int] = {}
    for seed in range(60):
        made = check(seed)
        for kind, n in made.kinds().items():
            kinds[kind] = kinds.get(kind, 0) + n
        for actor in made.instances:
            for what, n in actor.instance.counts.items():
                counts[what] = counts.get(what, 0) + n
    for kind in ("EVENT", "GONE", "OPEN", "ADD", "CLOSE", "NOTCLOSE", "DEL", "END"):
        assert kinds[kind] > 0, kind
    assert counts["recoveries"] > 0
    assert counts["avoided"] > 0
