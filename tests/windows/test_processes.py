"""Instances in processes: the same results as here, also if one is killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import betimes as bt
from betimes import Engine, Event, Hierarchy, fold
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.observers import Observer
from betimes.parallel import ShippingError, WorkerError
from betimes.windows.team import Processes
from tests.windows.material import TOTALS, Steps, spread, truth

SHAPE = bt.window(count=6, slide=3)


class Watching(Observer):
    """Knows the stages of an engine."""

    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}

    def settled(self, stage: Stage, final_to: int) -> None:  # noqa: ARG002
        self.stages[stage.node.name] = stage

    @property
    def team(self) -> Processes:
        team = self.stages["tested"].tactic.team  # type: ignore[attr-defined]
        assert isinstance(team, Processes)
        return team


def batches(count: int = 12, size: int = 15) -> list[list[Event]]:
    chance = random.Random(3)
    events = [
        Event("A", ts, {"k": chance.randrange(2), "v": chance.randrange(4)})
        for ts in sorted(range(count * size), key=lambda ts: ts + chance.randrange(12))
    ]
    return [events[low : low + size] for low in range(0, len(events), size)]


def engine(operator: Any, **options: Any) -> tuple[Engine, Watching]:
    hierarchy = Hierarchy(clock="A")
    detector = bt.windowed(operator, SHAPE, **({"instances": 2} | options))
    hierarchy.add(detector, on="A", emits="made", by="k", name="tested")
    watching = Watching()
    return Engine(hierarchy, attenuation=0, observers=[watching]), watching


@pytest.mark.parametrize(
    "operator", [Steps, spread, TOTALS], ids=["class", "function", "aggregate"]
)
def test_the_changes_are_those_of_one_process(operator: Any) -> None:
    runs = []
    for workers in ("processes", "inline"):
        made, _ = engine(operator, workers=workers)
        runs.append([*(c for batch in batches() for c in made.feed(batch)), *made.finish()])
    assert runs[0] == runs[1]
    events = [event for batch in batches() for event in batch]
    assert fold(runs[0]) == truth(SHAPE, operator, events, "k")


def test_an_instance_that_is_killed_is_replaced() -> None:
    made, watching = engine(Steps)
    still, _ = engine(Steps, workers="inline")
    for number, batch in enumerate(batches()):
        changes, expected = list(made.feed(batch)), list(still.feed(batch))
        assert changes == expected, number
        pool = watching.team.pool
        if number % 4 == 1 and pool is not None:
            os.kill(pool.pids[number // 4 % 2], signal.SIGKILL)
    assert list(made.finish()) == list(still.finish())
    assert pool is not None
    assert pool.replaced == 3


class Mortal(Steps):
    """Ends its process the first few times it comes to an event; a folder counts them."""

    def __init__(self, folder: str, times: int) -> None:
        super().__init__()
        self.folder = folder
        self.times = times

    def on_event(self, event: Event) -> Event | None:
        if event.ts == 100 and len(os.listdir(self.folder)) < self.times:
            Path(self.folder, str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().on_event(event)


def test_an_instance_that_dies_in_the_middle_of_a_window_is_replaced(tmp_path: Path) -> None:
    made, watching = engine(Mortal(str(tmp_path), 2))
    still, _ = engine(Steps, workers="inline")
    for batch in batches():
        assert list(made.feed(batch)) == list(still.feed(batch))
    assert list(made.finish()) == list(still.finish())
    assert watching.team.pool is not None
    assert watching.team.pool.replaced == 2


def test_an_operator_that_ends_every_process_is_an_error(tmp_path: Path) -> None:
    made, _ = engine(Mortal(str(tmp_path), 100))
    events = [event for batch in batches() for event in batch]
    with pytest.raises(WorkerError, match="of tested in a row died while handling the same work"):
        made.feed(events)


class Fails:
    def on_event(self, event: Event) -> Iterator[Event]:
        if event["v"] == 3:
            raise ValueError("three")
        yield Event("made", event.ts, {"v": event["v"]})


def test_an_operator_that_fails_there_follows_errors() -> None:
    found = []
    for workers in ("processes", "inline"):
        hierarchy = Hierarchy(clock="A")
        detector = bt.windowed(Fails, SHAPE, instances=2, workers=workers)
        hierarchy.add(detector, on="A", emits="made", name="tested")
        made = Engine(hierarchy, errors="skip")
        changes = [*(c for batch in batches(4) for c in made.feed(batch)), *made.finish()]
        found.append((fold(changes), made.stats["tested"].errors))
    assert found[0] == found[1]
    assert found[0][1] > 0


def test_what_cannot_travel_is_refused_before_anything_starts() -> None:
    class Local:
        def on_event(self, event: Event) -> None: ...

    for operator in (Local, lambda table: {"n": table.num_rows}):
        detector = bt.windowed(operator, SHAPE, instances=2)
        with pytest.raises(ShippingError, match=r"tested cannot be sent .* top level of a module"):
            Hierarchy().add(detector, on="A", emits="made", name="tested")
        Hierarchy().add(
            bt.windowed(operator, SHAPE, instances=2, workers="inline"), on="A", emits="made"
        )


class Holding(Steps):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_the_attribute_that_cannot_travel_is_named() -> None:
    detector = bt.windowed(Holding(), SHAPE, instances=2)
    with pytest.raises(ShippingError, match=r"^tested cannot be sent .* its attribute 'lock' is"):
        Hierarchy().add(detector, on="A", emits="made", name="tested")


def size(table: Any) -> dict[str, Any]:
    return {"n": table.num_rows}


def test_large_payloads_travel_once() -> None:
    """However late events are, and however often windows change."""
    hierarchy = Hierarchy(clock="A")
    detector = bt.windowed(size, SHAPE, workers="processes")
    hierarchy.add(detector, on="A", emits="made", name="tested")
    watching = Watching()
    made = Engine(hierarchy, attenuation=0, observers=[watching])
    picture = bytes(100_000)
    events = [event for batch in batches(4) for event in batch]
    for event in events:
        made.feed(Event("A", event.ts, {"picture": picture}))
    made.finish()
    payloads = len(events) * len(picture)
    assert payloads <= watching.team.bytes_sent <= 1.1 * payloads


def test_bad_options_are_named() -> None:
    for options, message in (
        ({"instances": 0}, "whole number from 1 to 1024, got instances=0"),
        ({"instances": 1.5}, "got instances=1.5"),
        ({"workers": "process"}, "did you mean 'processes'"),
        ({"schedule": "roundrobin"}, "did you mean 'round_robin'"),
        ({"snapshots": "often"}, "expected snapshots"),
    ):
        with pytest.raises(bt.OptionError, match=message):
            bt.windowed(size, SHAPE, **options)
    made, _ = engine(Steps, schedule=lambda _number, _open: 7, workers="inline")
    with pytest.raises(bt.OptionError, match="name an instance from 0 to 1, got 7"):
        made.feed(batches(1)[0])
