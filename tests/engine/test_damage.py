"""Checkpoints that are damaged, or that somebody has put together: refused, whatever is wrong."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from betimes.engine import CheckpointError, Engine, Hierarchy
from betimes.model import BetimesError, EventBatch
from betimes.model.codec import dumps, loads, sealed, unsealed
from betimes.patterns import pattern
from betimes.testing import sensor_stream
from tests.engine.crafting import other_array

OPTIONS: list[dict[str, Any]] = [
    {"slack": "largest", "attenuation": 1.0},
    {"slack": "quantile", "attenuation": 0.3},
    {"slack": "largest", "attenuation": 0.0, "margin": 1.5},
]
CLOCKS: list[Any] = ["ball", None, ("ball", "near")]
CASES = [pytest.param(o, c, id=f"{o['slack']}-{c}") for o, c in zip(OPTIONS, CLOCKS, strict=True)]
CHANGES = 400
"""How many times each checkpoint is changed."""


def hierarchy(clock: Any) -> Hierarchy:
    """Compiled patterns on two levels, and a detector in Python."""
    found = Hierarchy(clock=clock)
    found.add(pattern("near !not_near hit", emits="touch", within="5ms"))
    found.add(
        pattern("near hit", where="hit.ts > near.ts", skip="none", emits="pair", within="20ms")
    )
    found.add(pattern("touch pair", emits="both", within="20ms"))
    found.add(lambda _: None, on="hit", emits="nothing", name="nothing")
    return found


def stream() -> EventBatch:
    return sensor_stream(1_500, seed=4)


def checkpoint(options: dict[str, Any], clock: Any) -> bytes:
    engine = Engine(hierarchy(clock), **options)
    engine.feed(stream()[:1_000])
    return engine.checkpoint()


@pytest.mark.parametrize(("options", "clock"), CASES)
def test_any_bit_that_flips_is_noticed(options: dict[str, Any], clock: Any) -> None:
    whole, rng = checkpoint(options, clock), random.Random(1)
    for _ in range(CHANGES):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        with pytest.raises(CheckpointError, match="damaged"):
            Engine(hierarchy(clock), **options).restore(bytes(damaged))


@pytest.mark.parametrize("cut", [0, 1, 15, 16, 17, 1_000])
def test_a_part_of_a_checkpoint_is_refused(cut: int) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        Engine(hierarchy("ball")).restore(checkpoint({}, "ball")[:cut])


def arrays(state: Any) -> list[Any]:
    """Every array in a state."""
    if isinstance(state, np.ndarray):
        return [state]
    parts = state.values() if isinstance(state, dict) else state
    deeper = isinstance(state, dict | list | tuple)
    return [found for part in parts for found in arrays(part)] if deeper else []


def replaced(state: Any, old: Any, new: Any) -> Any:
    """The state with another array in the place of one."""
    if state is old:
        return new
    if isinstance(state, dict):
        return {key: replaced(value, old, new) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(replaced(value, old, new) for value in state)
    return state


@pytest.mark.parametrize(("options", "clock"), CASES)
def test_arrays_that_were_put_together_never_reach_a_loop(
    options: dict[str, Any], clock: Any
) -> None:
    """What a compiled loop would use as an index is refused if it is out of range.

    Other changes, such as another time, nobody can tell; then the engine runs, or fails with an
    error. It never takes the interpreter with it, or this test would not end.
    """
    whole, rest = checkpoint(options, clock), stream()[1_000:]
    rng, refused = random.Random(2), 0
    for _ in range(CHANGES):
        kept = loads(unsealed(whole, "it"), "it")
        stages = kept["order"]["stages"]
        name = rng.choice([name for name in stages if name != "nothing"])
        state = loads(stages[name], "it")
        array = rng.choice(arrays([state["unit"], state["tactic"]]))
        stages[name] = dumps(replaced(state, array, other_array(array, rng)), "it")
        engine = Engine(hierarchy(clock), **options)
        try:
            engine.restore(sealed(dumps(kept, "it")))
        except CheckpointError:
            refused += 1
            continue
        with suppress(BetimesError):
            engine.feed(rest)
            engine.finish()
    assert refused > CHANGES / 2


def test_an_engine_that_refused_a_checkpoint_is_of_no_more_use() -> None:
    whole = checkpoint({}, "ball")
    kept = loads(unsealed(whole, "it"), "it")
    del kept["order"]["stages"]["both"]
    engine = Engine(hierarchy("ball"))
    with pytest.raises(CheckpointError, match=r"does not fit together: KeyError\(.both.\)"):
        engine.restore(sealed(dumps(kept, "it")))
    with pytest.raises(Exception, match="stopped at an error"):
        engine.feed(stream())
