"""Detectors per batch for tests: they give the same however the events are cut into slices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.engine.stages.rows import RowTactic
from betimes.model import Derived, Event, EventBatch


@dataclass
class EveryNth:
    """Every n-th event, with the sum of a column so far; may date its outputs back."""

    out: str
    every: int = 2
    back: int = 0
    n: int = 0
    total: int = 0

    def on_batch(self, batch: EventBatch) -> Derived:
        number = self.n + 1 + np.arange(len(batch))
        total = self.total + np.cumsum(batch.numbers("v"))
        rows = np.flatnonzero(number % self.every == 0)
        self.n += len(batch)
        self.total = int(total[-1])
        ts = np.maximum(batch.ts[rows] - self.back, 0) if self.back else None
        payload = {"k": batch.numbers("k")[rows], "total": total[rows]}
        return Derived(self.out, rows=rows, ts=ts, payload=payload)


@dataclass
class Steps:
    """Where a column is larger or smaller than before: two types, an array as state."""

    out: str
    last: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))

    def on_batch(self, batch: EventBatch) -> list[Derived]:
        value, key = batch.numbers("v"), batch.numbers("k")
        before = np.empty(len(batch), np.int64)
        for row in range(len(batch)):
            before[row] = self.last[key[row]]
            self.last[key[row]] = value[row]
        up, down = np.flatnonzero(value > before), np.flatnonzero(value < before)
        return [
            Derived(f"{self.out}-", rows=down, payload={"k": key[down], "to": value[down]}),
            Derived(self.out, rows=up, payload={"k": key[up], "from": before[up]}),
        ]


class Own:
    """A detector with a way of its own to save its state; says the same more than once."""

    columns = ("v", "k")

    def __init__(self, out: str) -> None:
        self.out = out
        self.seen: list[int] = []

    def snapshot(self) -> tuple[int, ...]:
        return tuple(self.seen)

    def restore(self, state: tuple[int, ...]) -> None:
        self.seen = list(state)

    def on_batch(self, batch: EventBatch) -> Derived:
        rows = []
        for row, value in enumerate(batch.numbers("v").tolist()):
            if value in self.seen:
                rows += [row, row]
            self.seen = [*self.seen[-1:], value]
        return Derived(self.out, rows=rows, payload={"k": [0] * len(rows)})


@dataclass
class Plain:
    """Events that are made at the end of their slice, beside some that tell their row."""

    out: str
    total: int = 0

    def on_batch(self, batch: EventBatch) -> Iterator[Event | Derived]:
        for event in batch:
            self.total += event.ts
            if event.ts % 3 == 0:
                yield Event(self.out, event.ts, {"k": event["k"], "total": self.total})
        rows = np.flatnonzero(batch.ts % 4 == 0)
        yield Derived(f"{self.out}-", rows=rows, payload={"k": batch.numbers("k")[rows]})


@dataclass
class Above:
    """A detector per event that reads what those make."""

    out: str
    n: int = 0

    def on_event(self, event: Event) -> Event | None:
        self.n += 1
        payload = {"k": event["k"], "n": self.n, "of": event.type}
        return Event(self.out, event.ts, payload) if event.ts % 2 else None


@st.composite
def sliced(draw: st.DrawFn, *, plain: bool = True) -> Hierarchy:
    """One to three detectors per batch on input events, and perhaps one above them."""
    hierarchy = Hierarchy(clock=draw(st.sampled_from(["A", ("A", "B"), "*", None])))
    made: list[str] = []
    for number in range(draw(st.integers(1, 3))):
        out = f"L{number}"
        hierarchy.add(
            draw(_detectors(out, plain=plain)),
            on=draw(st.sampled_from([("A",), ("B", "C"), ("A", "B", "C"), "*"])),
            emits=(out, f"{out}-"),
            by=draw(st.sampled_from([None, None, "k"])),
            name=f"makes {out}",
        )
        made += [out, f"{out}-"]
    if draw(st.booleans()):
        hierarchy.add(Above("top"), on=made, emits="top", by=draw(st.sampled_from([None, "k"])))
    return hierarchy


def _detectors(out: str, *, plain: bool) -> st.SearchStrategy[Any]:
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(EveryNth, st.just(out), st.integers(1, 3), st.sampled_from([0, 0, 2, 5])),
        st.builds(Steps, st.just(out)),
        st.builds(Own, st.just(out)),
    ]
    if plain:
        kinds.append(st.builds(Plain, st.just(out)))
    return st.one_of(kinds)


def row_by_row(hierarchy: Hierarchy, **options: Any) -> Engine:
    """An engine that hands detectors per batch Python's events, as it does above level 1."""
    rows = copy.copy(hierarchy)
    rows._nodes = {node.name: replace(node, tactic=RowTactic) for node in hierarchy}
    return Engine(rows, **options)


def in_columns(hierarchy: Hierarchy, **options: Any) -> Engine:
    """An engine whose detectors per batch get columns."""
    return Engine(hierarchy, **options)
