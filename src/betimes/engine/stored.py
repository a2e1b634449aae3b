"""What the checkpoint of an engine consists of, down to its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np

from betimes.model.event import Event
from betimes.model.stored import Int, Place, array, require
from betimes.ordering import OrderingUnit


class EngineState(TypedDict):
    """That of an `Engine`."""

    identity: dict[str, dict[str, Any]]
    seq: Int
    ended: bool
    aside: tuple[Int, dict[str, Int]]
    order: dict[str, Any]
    volumes: list[bytes | list[bytes]]


class KeysState(TypedDict):
    """That of a `KeyedOrder`."""

    keys: list[tuple[Any, bytes]]


class OrderState(TypedDict):
    """That of a `SharedOrder`."""

    arrived: Int
    newest: Int
    stages: dict[str, bytes]
    provisional: dict[str, set[str]]


class StageState(TypedDict):
    """That of a `Stage`."""

    unsure: dict[str, Int]
    settled: tuple[Int, Int]
    horizon: tuple[Int, Int, Int, Int | None]
    open: list[str]
    unit: dict[str, Any]
    row: Int
    lateness: tuple[dict[Int, Int], set[str]]
    suspects: dict[Int, tuple[Event, Int]]
    before: tuple[Int, Int]
    certain_below: list[Int]
    newest: Int
    failures: tuple[dict[tuple[Any, Place], str], set[tuple[Any, Place]]]
    counts: tuple[
        Int, Int, Int, Int, Int, Int, Int, Int, float, float, Int, Int, Int, Int, str,
        dict[str, float],
    ]  # fmt: skip
    tactic: dict[str, Any]


def check_rows(kept: Mapping[str, Any], unit: OrderingUnit) -> None:
    """What the unit has not handed out waits, and what waits has arrived."""
    arrived = unit.stats.arrived
    require(kept["row"] == arrived, "arrivals are missing")
    if "waiting" not in kept["tactic"]:
        return  # a tactic may keep it elsewhere, and misses it by itself
    rows = array(kept["tactic"]["waiting"][0], np.int64, (None,), "what waits")
    require(not len(rows) or rows[-1] < arrived, "something waits that has not arrived")
