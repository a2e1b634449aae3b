"""Checkpoints with a right checksum that no engine wrote: refused, or what nobody can tell."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from betimes.engine import CheckpointError, Engine, Hierarchy
from betimes.model import BetimesError, Event
from betimes.model.codec import dumps, loads, sealed, unsealed
from betimes.patterns import pattern
from betimes.transactions import transactional
from betimes.windows import windowed
from tests.engine.cases import small_sizes, transact
from tests.engine.crafting import Path, crafted, put
from tests.engine.material import Count
from tests.engine.slicing import EveryNth
from tests.engine.test_time import Unanswered
from tests.windows.material import WINDOWS, Steps

TYPES = ("A", "B", "C")
CHANGES = 150
"""How often each checkpoint is changed."""


@pytest.fixture(autouse=True, scope="module")
def _small_sizes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        small_sizes(patch)
        yield


def columns() -> Hierarchy:
    made = Hierarchy(clock="A")
    made.add(pattern("A !B C", within=20, by="k", emits="x"))
    made.add(pattern("A C", where="C.v >= A.v", within=9, skip="none", emits="y"))
    made.add(pattern("x y", within=50, emits="z"))
    return made


def rows() -> Hierarchy:
    made = Hierarchy(clock=("A", "B"))
    made.add(Count("n", 2, 3), on=TYPES, emits="n", by="k")
    made.add(Unanswered(5), on=("A", "B"), emits=("answered", "unanswered"), by="k")
    made.add(pattern("A B+ C", within=20, emits="g"))
    return made


def slices() -> Hierarchy:
    made = Hierarchy()
    made.add(EveryNth("e", 2, 3), on=("A", "B"), emits="e", by="k")
    made.add(Count("n"), on=("e", "C"), emits="n", by="k")
    return made


def windows() -> Hierarchy:
    made = Hierarchy(clock="*")
    made.add(windowed(Steps, WINDOWS["time"], workers="inline"), on=TYPES, emits="made", by="k")
    return made


def transactions() -> Hierarchy:
    made = Hierarchy(clock="*")
    made.add(transactional(transact), on=TYPES, emits="made", name="t")
    return made


CASES: list[tuple[Any, dict[str, Any]]] = [
    (columns, {"slack": "quantile", "attenuation": 0.3}),
    (rows, {"attenuation": 0.0, "source": "p"}),
    (slices, {"attenuation": 0.5, "by": "k", "order": "key"}),
    (windows, {"attenuation": 0.0, "margin": 1.5, "retention": 50}),
    (transactions, {"attenuation": 0.0}),
]


def stream() -> list[Event]:
    rng = random.Random(4)
    return [
        Event(
            rng.choice(TYPES), max(0, 3 * n - rng.choice([0, 0, 5, 20])),
            {"k": rng.randrange(3), "v": rng.randrange(4), "p": rng.choice("xy")},
        )
        for n in range(120)
    ]  # fmt: skip


def changed(whole: bytes, rng: random.Random) -> tuple[Path, bytes]:
    """The checkpoint with a change somewhere in it, mostly in the state of a stage."""
    kept = loads(unsealed(whole, "it"), "it")
    if rng.random() < 0.15:
        path, kept = crafted(kept, rng)
        return path, sealed(dumps(kept, "it"))
    order = kept["order"]
    number = rng.randrange(len(order["keys"])) if "keys" in order else None
    mine = order if number is None else loads(order["keys"][number][1], "it")
    name = rng.choice(list(mine["stages"]))
    path, state = crafted(loads(mine["stages"][name], "it"), rng)
    mine["stages"][name] = dumps(state, "it")
    if number is not None:
        order["keys"][number] = (order["keys"][number][0], dumps(mine, "it"))
    return path, sealed(dumps(kept, "it"))


@pytest.mark.parametrize(("hierarchy", "options"), CASES, ids=[c[0].__name__ for c in CASES])
def test_what_no_engine_wrote_is_refused(hierarchy: Any, options: dict[str, Any]) -> None:
    """At once, or it runs: another number, or another state of a detector, nobody can tell."""
    events, rng, ends = stream(), random.Random(1), Counter[str]()

    def make() -> Engine:
        return Engine(hierarchy(), time=lambda: 0.0, **options)

    engine = make()
    engine.feed(events[:80])
    whole = engine.checkpoint()
    make().restore(whole)
    for number in range(CHANGES):
        path, other = changed(whole, rng)
        engine = make()
        try:
            engine.restore(other)
        except CheckpointError:
            ends["refused"] += 1
            continue
        if path[:2] == ("tactic", "detectors"):
            continue  # what a detector makes of another state is its own affair
        try:
            engine.feed(events[80:100])
            engine.checkpoint()
            engine.feed(events[100:])
            engine.finish()
            ends["ran"] += 1
        except BetimesError:
            ends["told"] += 1
        except Exception as error:
            raise AssertionError(f"change {number}, at {path}") from error
    assert ends["refused"] > CHANGES / 2 > ends["ran"] > 10 * ends["told"]


@pytest.mark.parametrize(("field", "value"), [(0, -(2**63)), (3, [1, "a"])])
def test_windows_that_were_never_cut_are_refused(field: int, value: Any) -> None:
    """The number of an open window, and how many events it has."""
    engine = Engine(windows(), attenuation=0.0)
    engine.feed(stream()[:80])
    kept = loads(unsealed(engine.checkpoint(), "it"), "it")
    ((name, stage),) = kept["order"]["stages"].items()
    state = loads(stage, "it")
    path = ("tactic", "keys", 0, 1, "cutter", 1, 0, field)
    kept["order"]["stages"][name] = dumps(put(state, path, value), "it")
    with pytest.raises(CheckpointError):
        Engine(windows(), attenuation=0.0).restore(sealed(dumps(kept, "it")))


def test_a_pattern_whose_events_are_missing_is_refused() -> None:
    engine = Engine(columns(), attenuation=0.0)
    engine.feed(stream()[:80])
    kept = loads(unsealed(engine.checkpoint(), "it"), "it")
    name, stage = next(iter(kept["order"]["stages"].items()))
    state = put(loads(stage, "it"), ("tactic", "store", "events"), [])
    kept["order"]["stages"][name] = dumps(state, "it")
    with pytest.raises(CheckpointError, match="events of a pattern are missing"):
        Engine(columns(), attenuation=0.0).restore(sealed(dumps(kept, "it")))
