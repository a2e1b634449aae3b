"""Virtual time: deterministic from a seed, pipes keep their order, busy actors make others wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from betimes.model.errors import OptionError
from betimes.testing.virtual import VirtualTime


class Sender:
    """Sends what it gets to `sink`, under its own name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def receive(self, message: Any) -> Iterable[tuple[str, Any]]:
        return [("sink", (self.name, message))]


class Sink:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> None:
        self.seen.append(message)


def run(seed: int) -> tuple[list[Any], VirtualTime]:
    sink = Sink()
    world = VirtualTime(
        {"a": Sender("a"), "b": Sender("b"), "sink": sink},
        seed=seed,
        cost=lambda name, _message: 5 if name == "a" else 7,
        transit=(0, 40),
    )
    for n in range(10):
        world.send("a", n)
        world.send("b", n)
    world.run()
    return sink.seen, world


def test_the_same_seed_gives_the_same_run_and_others_give_others() -> None:
    runs = {seed: run(seed)[0] for seed in range(5)}
    assert all(run(seed)[0] == seen for seed, seen in runs.items())
    assert len({tuple(seen) for seen in runs.values()}) == 5


@pytest.mark.parametrize("seed", range(20))
def test_a_pipe_keeps_its_order(seed: int) -> None:
    seen, world = run(seed)
    for sender in "ab":
        assert [n for name, n in seen if name == sender] == list(range(10))
    assert {name: account.busy for name, account in world.accounts.items()} == {
        "a": 50, "b": 70, "sink": 140,
    }  # fmt: skip


def test_an_urgent_message_overtakes_what_waits_but_not_what_is_handled() -> None:
    sink = Sink()
    world = VirtualTime(
        {"sink": sink}, cost=lambda _name, _message: 10, urgent=lambda message: message == "now"
    )
    for message in ("first", "second", "third"):
        world.send("sink", message)
    world.at(5, lambda: world.send("sink", "now"))
    world.run()
    assert sink.seen == ["first", "now", "second", "third"]
    assert world.now == 40


def test_what_an_actor_spends_keeps_it_busy() -> None:
    class Spender(Sink):
        def receive(self, message: Any) -> None:
            super().receive((message, world.now))
            world.spend(message)

    spender = Spender()
    world = VirtualTime({"s": spender})
    world.send("s", 30)
    world.send("s", 1)
    world.run()
    assert spender.seen == [(30, 0), (1, 30)]
    assert world.now == 31


def test_what_was_meant_for_a_dead_actor_is_lost() -> None:
    dead, alive = Sink(), Sink()
    sender = Sender("a")
    world = VirtualTime(
        {"a": sender, "sink": dead}, cost=lambda name, _message: 10 if name == "sink" else 0
    )
    for n in range(5):
        world.send("a", n)
    world.at(15, lambda: world.replace("sink", alive))
    world.at(16, lambda: world.send("a", 5))
    world.run()
    assert [n for _, n in dead.seen] == [0, 1]
    assert [n for _, n in alive.seen] == [5]


def test_running_up_to_a_time_leaves_the_rest_for_later() -> None:
    sink = Sink()
    world = VirtualTime({"sink": sink}, cost=lambda _name, _message: 10)
    for n in range(3):
        world.send("sink", n)
    world.run(until=15)
    assert (sink.seen, world.now) == ([0, 1], 15)
    world.run()
    assert (sink.seen, world.now) == ([0, 1, 2], 30)


def test_bad_input_is_named() -> None:
    world = VirtualTime({"sink": Sink()})
    with pytest.raises(OptionError, match=r"one of the actors \['sink'\], got to='sync'"):
        world.send("sync", 1)
    with pytest.raises(OptionError, match=r"got transit=\(3, 1\)"):
        VirtualTime({}, transit=(3, 1))
    world.at(9, lambda: None)
    world.run()
    with pytest.raises(OptionError, match="now=9"):
        world.at(3, lambda: None)
