"""The same facts through the engine: in order, and in disorder with speculation."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from betimes import DetectorError, Engine, Event, Hierarchy, PatternWarning, fold
from betimes.model.change import Change
from betimes.patterns import Builder
from tests.patterns.test_vectors import (
    MILLISECOND,
    VECTORS,
    Naming,
    Vector,
    events,
    pattern,
    vectors,
)

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"no vectors at {VECTORS}")


def hierarchy_of(made: Builder) -> Hierarchy:
    hierarchy = Hierarchy(clock="*")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PatternWarning)
        hierarchy.add(made, emits="match")
    return hierarchy


def timed(vector: Vector) -> list[Event]:
    """The events in the order of their times; where nothing depends on times, numbered anew."""
    made = events(vector)
    if any(later.ts < earlier.ts for earlier, later in pairwise(made)):
        assert vector["pattern"]["within"] is None
        return [Event(e.type, n * MILLISECOND, e.payload) for n, e in enumerate(made)]
    return made


def in_disorder(stream: list[Event], seed: int) -> list[Event]:
    """Each event is up to five events late; of equal times, arrival is the order, so it stays."""
    rng = random.Random(seed)
    places: list[float] = []
    for number, event in enumerate(stream):
        twin = number and stream[number - 1].ts == event.ts
        low = places[-1] if twin else number
        places.append(max(low, number) + rng.choice((0.0, 0.0, rng.uniform(0, 5))))
    order = sorted(range(len(stream)), key=lambda number: (places[number], number))
    return [stream[number] for number in order]


def found(changes: list[Change], naming: Naming) -> Counter[tuple[int, ...]]:
    """What stands in the end, as the numbers of the bound events."""
    standing: Counter[tuple[int, ...]] = Counter()
    for change in changes:
        if change.type != "match":
            continue
        numbers: list[int] = []
        for name, value in change.payload.items():
            if name.endswith(".n"):
                numbers += value if isinstance(value, list) else [value]
        row = tuple(sorted(naming.number[n] for n in numbers))
        standing[row] += {"insert": 1, "delete": -1, "confirm": 0}[change.change_type]
    assert all(count >= 0 for count in standing.values())
    return +standing


def run(engine: Engine, stream: list[Event], size: int) -> list[Change]:
    changes = [
        c for low in range(0, len(stream), size) for c in engine.feed(stream[low : low + size])
    ]
    return [*changes, *engine.finish(advance=False)]


@pytest.mark.parametrize("vector", list(vectors()))
def test_in_order(vector: Vector) -> None:
    naming = Naming(vector)
    engine = Engine(hierarchy_of(pattern(vector)), attenuation=1.0)
    if vector.get("expected_error"):
        with pytest.raises(DetectorError):
            run(engine, timed(vector), 1)
        return
    changes = run(engine, timed(vector), 1)
    if "expected" in vector:
        rows = (tuple(sorted(naming.number[n] for n in row)) for row in vector["expected"])
        assert found(changes, naming) == Counter(rows)
    if "expected_count" in vector:
        assert found(changes, naming).total() == vector["expected_count"]


@pytest.mark.parametrize("vector", list(vectors()))
def test_in_disorder(vector: Vector) -> None:
    if vector.get("expected_error"):
        return  # in order it is an error, and so it is here, but at another event
    stream, made = timed(vector), pattern(vector)
    hierarchy = hierarchy_of(made)
    expected = fold(run(Engine(hierarchy, attenuation=1.0), stream, 1))
    options: list[dict[str, Any]] = [
        {"attenuation": 0.0, "retraction": "on-demand", "snapshots": 1},
        {"attenuation": 0.3, "retraction": "full", "snapshots": 3},
    ]
    for seed, chosen in enumerate(options):
        engine = Engine(hierarchy, retention="1h", **chosen)
        assert fold(run(engine, in_disorder(stream, seed), 1 + 2 * seed)) == expected
