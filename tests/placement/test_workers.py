"""Detectors in worker processes: the same changes as in one process, also if workers die."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import Any

import pytest

from betimes.engine import Engine, Hierarchy
from betimes.model import Event, OptionError
from betimes.model.change import Change
from betimes.parallel import ShippingError, WorkerError
from betimes.patterns import pattern
from betimes.placement.driver import Placed
from betimes.placement.workers import Workers
from tests.placement.test_placed import rows


@dataclass
class Sum:
    """The sum of the last five."""

    out: str
    last: list[int] = field(default_factory=list)

    def on_event(self, event: Event) -> Event:
        self.last = [*self.last, event["v"]][-5:]
        return Event(self.out, event.ts, {"v": sum(self.last) % 10, "k": event["k"]})


class Fails:
    def on_event(self, event: Event) -> None:
        raise ValueError(f"no {event.type} today")


def hierarchy() -> Hierarchy:
    found = Hierarchy(clock="A")
    found.add(Sum("low"), on="A", emits="low", by="k", name="low")
    found.add(Sum("other"), on=("A", "low"), emits="other", name="other")
    found.add(Sum("high"), on=("low", "other"), emits="high", name="high")
    found.add(pattern("low high", by="k", within=50, emits="both", select={"k": "low.k"}))
    return found


def stream() -> list[list[Event]]:
    events = [
        Event("A", 10 * n - (n * 7919 % 90 if n % 3 == 0 else 0) + 100, {"v": n % 7, "k": n % 3})
        for n in range(600)
    ]
    return [events[at : at + 6] for at in range(0, len(events), 6)]


OPTIONS: dict[str, Any] = {"attenuation": 0.3, "retention": 10**9}


def alone() -> list[tuple[Any, ...]]:
    engine = Engine(hierarchy(), **OPTIONS)
    changes = [change for batch in stream() for change in engine.feed(batch)]
    return rows([*changes, *engine.finish()])


def crew_of(engine: Engine) -> Workers:
    placed = engine._order
    assert isinstance(placed, Placed)
    crew = placed._crew
    assert isinstance(crew, Workers)
    return crew


def test_the_changes_are_those_of_one_process_also_if_workers_die_and_detectors_move() -> None:
    engine, changes = Engine(hierarchy(), workers=2, **OPTIONS), list[Change]()
    crew = crew_of(engine)
    for number, batch in enumerate(stream()):
        changes += engine.feed(batch)
        if number in (20, 21, 60):
            os.kill(crew.pool.pids[number % 2], signal.SIGKILL)
        if number == 40:
            crew.homes.move("high", "worker 0")
            crew.homes.move("low", "worker 1", at_once=True)
    changes += engine.finish()
    assert rows(changes) == alone()
    assert crew.pool.replaced == 3
    assert engine.stats["low"].handled == 600
    crew.pool.close()


def test_a_detector_that_fails_stops_the_engine() -> None:
    failing = Hierarchy(clock="A")
    failing.add(Fails, on="A", emits="never")
    engine = Engine(failing, workers=1, retention=0)
    engine.feed([Event("A", 1)])
    with pytest.raises(WorkerError, match="no A today"):
        engine.finish()
    crew_of(engine).pool.close()


def test_what_cannot_be_sent_is_named() -> None:
    local = Hierarchy(clock="A")
    local.add(lambda _: None, on="A", emits="never", name="here only")
    with pytest.raises(ShippingError, match="here only"):
        Engine(local, workers=1)


@pytest.mark.parametrize("workers", [0, -1, True, 5])
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers: Any) -> None:
    with pytest.raises(OptionError, match="workers"):
        Engine(hierarchy(), workers=workers)
