"""The examples of the thesis *windows*: Fig. 6-1, Fig. 6-2 and the end of section 6.1.3.

Windows begin every five events and are long. Events 1 to 7, 9, 10, 11, 13 and 15 have come; the
splitter has a snapshot after event 9.
"""

from __future__ import annotations

from typing import Any

import pytest

from betimes.model import Event
from betimes.model.detector import Maker
from betimes.testing.windowing import World
from betimes.windows import window
from betimes.windows.messages import END, EVENT
from betimes.windows.operators import PerWindow
from betimes.windows.splitting import Cut
from tests.windows.material import Quiet

CAME = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 15]
FIRST = [*range(1, 8), 9, 10, 11, 13, 15]


def arrival(ts: int) -> list[Any]:
    return [(None, (ts, 0, ts), Event("A", ts, {"k": 0, "v": 0}))]


def figure() -> World:
    """What the figures begin with."""
    shape = window(count=100, slide=5)
    world = World(shape, lambda: PerWindow(Maker(Quiet), "q"), instances=2, snapshots=8)
    for ts in CAME:
        world.time.send("splitter", arrival(ts))
    world.time.run()
    return world


def windows(world: World) -> list[list[int]]:
    """The events of each window, the newest first, as the figures draw them."""
    key = world.splitter.splitter.key(None)

    def events(cut: Cut) -> list[int]:
        return [e.place[0] for e in reversed(key.entries) if e.place >= cut.first]

    return [events(cut) for cut in key.cuts]


def late(world: World, ts: int) -> list[tuple[int, tuple[Any, ...]]]:
    """What the splitter sends because of a late event: the instance, the kind, the content."""
    before = len(world.splitter.sent)
    world.time.send("splitter", arrival(ts))
    world.time.run()
    return [(instance, _short(message)) for instance, message in world.splitter.sent[before:]]


def _short(message: Any) -> tuple[Any, ...]:
    kind = message[0]
    if kind == EVENT:
        return kind, message[3][0]
    if kind == END:
        return (kind,)
    return kind, message[2], message[3][0]


def test_before_the_late_event() -> None:
    world = figure()
    assert windows(world) == [FIRST[::-1], FIRST[:4:-1], [15, 13]]
    key = world.splitter.splitter.key(None)
    assert [save.after[0] for save in key.saves] == [-1, 9]
    assert [len(save.open) for save in key.saves] == [0, 2]
    assert [(cut.id, cut.instance) for cut in key.cuts] == [(1, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize(
    ("ts", "newest", "messages"),
    [
        # Fig. 6-1: windows stay what they are. The event goes to both instances, once each.
        (14, [15, 14, 13], [(0, (EVENT, 14)), (0, (END,)), (1, (EVENT, 14)), (1, (END,))]),
        # Fig. 6-2: the third window begins with the late event.
        (
            12,
            [15, 13, 12],
            [
                (0, (EVENT, 12)), (0, ("ADD", 3, 12)), (0, (END,)),
                (1, (EVENT, 12)), (1, (END,)),
            ],
        ),
        # The same with an event that comes before the one that begins the window now.
        (
            8,
            [15, 13, 11],
            [
                (0, (EVENT, 8)), (0, ("ADD", 3, 11)), (0, (END,)),
                (1, (EVENT, 8)), (1, (END,)),
            ],
        ),
    ],
    ids=["Fig. 6-1", "Fig. 6-2", "6.1.3"],
)  # fmt: skip
def test_the_figures(ts: int, newest: list[int], messages: list[Any]) -> None:
    world = figure()
    sent = late(world, ts)
    assert sent == messages
    every = sorted([*CAME, ts], reverse=True)
    assert windows(world) == [every, every[: every.index(6) + 1], newest]
    assert world.sent_twice() == []


def test_the_optimisation_sends_no_event_again() -> None:
    """Without it, the window of Fig. 6-2 would be deleted, and its events sent again."""
    world = figure()
    late(world, 12)
    assert world.kinds()["DEL"] == 0
    assert world.kinds()[EVENT] == 2 * len(CAME) - 5 + 2
