"""What to detect, in a form that travels: checked on the driver, read by the workers.

A `Job` is data (names of columns, options of the engine) and the hierarchy as bytes, which a worker
unpacks only when it has to build an engine. Its *identity* is what the stored state of a query
depends on: state written under one identity is never read under another.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark import TaskContext

from betimes.engine import Engine, EngineOptions, Hierarchy
from betimes.host import Columns, Setup
from betimes.host.host import milliseconds
from betimes.model import Duration, OptionError
from betimes.model.identity import Identity, spelled_names
from betimes.ordering.clock import EVERY
from betimes.spark.shipping import ship
from betimes.transactions.scouts import has_scouts
from betimes.windows.chain import chained

ROW_SLOT = "_betimes_slot"
"""The column that carries the slot of an input row until rows are packed."""

MOST_NUMBERED = 16
"""The number of a type is found by comparing one by one; more types than this travel as text."""

USUAL_SLOTS = 4
"""How many slots a stream that is split by a column has, unless you say otherwise."""


@dataclass(frozen=True)
class Job:
    """One call of `detect`: where events come from, what to detect, how to divide the work."""

    hierarchy_bytes: bytes = field(repr=False)
    columns: Columns
    options: EngineOptions
    results: str
    slots: int
    idle: int
    """Milliseconds without an event after which time passes; 0 if it never does."""
    identity: Identity = field(repr=False)
    """What the state depends on."""
    wanted: tuple[str, ...] | None
    """The types of events that an engine looks at; None if it looks at all."""
    numbered: tuple[str, ...] | None
    """The types of all rows that reach Python, by number; None if types travel as text."""
    ticking: str | None
    """The type of clock events, if they only move the clock and may be thinned."""
    scouted: bool = False
    """Whether transactions may run where rows are read, ahead of the engine."""
    narrow: bool = False
    """Whether no row that goes to Python can be large."""
    chained: Mapping[str, int] = field(default_factory=dict)
    """The windowed operators whose instances have slots of their own, and how many."""

    @classmethod
    def of(
        cls,
        hierarchy: Hierarchy,
        columns: Columns,
        options: EngineOptions,
        *,
        slots: int | None = None,
        results: str = "provisional",
        idle: Duration | None = None,
        streams: bool = False,
    ) -> Job:
        """Check everything that can be checked without data."""
        found = chained(hierarchy, options) if streams else {}
        shipped = ship(hierarchy, inside=found)
        Engine(hierarchy, options)
        if slots is None:
            slots = 1 if options.by is None else USUAL_SLOTS
        _check_slots(slots, options.by)
        identity = Setup(hierarchy, options, columns, results).identity()
        wanted, about = _wanted(hierarchy), {"slots": str(slots)}
        if found:
            about["instances"] = spelled_names([f"{name}: {n}" for name, n in found.items()])
        return cls(
            shipped, columns, options, results, slots, milliseconds(idle),
            identity | Identity({"the job": about}), wanted,
            _numbered(hierarchy, wanted), _ticking(hierarchy),
            not found and any(has_scouts(node, options) for node in hierarchy), chained=found,
        )  # fmt: skip

    @property
    def stations(self) -> int:
        """How many slots each engine has for the instances of its operators."""
        return max(self.chained.values(), default=1)

    @property
    def partitions(self) -> int:
        """How many partitions a stateful operator has."""
        return self.slots * self.stations

    @property
    def adaptive(self) -> bool:
        """Whether the attenuation of any detector follows the load."""
        return self.setup.adaptive

    @property
    def setup(self) -> Setup:
        """What the host of each slot is made from; in a task, it may use the task's cores."""
        task = TaskContext.get()
        cores = None if task is None else task.cpus()
        return Setup(self.hierarchy, self.options, self.columns, self.results, cores)

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """Unpacked once per process; the bytes come from `ship` in the driver of this query."""
        hierarchy = pickle.loads(self.hierarchy_bytes)
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(f"expected a Hierarchy to be shipped, got {hierarchy!r}")
        return hierarchy

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "hierarchy"}


def _wanted(hierarchy: Hierarchy) -> tuple[str, ...] | None:
    clocks = hierarchy.clocks
    if clocks is None:
        return None
    types = {type for node in hierarchy for type in node.on} | set(clocks)
    return None if EVERY in types else tuple(sorted(types))


def _numbered(hierarchy: Hierarchy, wanted: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Clock types come first: most rows have one, and the first number is found first."""
    # Types that were not declared must come through, to be refused by name.
    if wanted is None or len(wanted) > MOST_NUMBERED or hierarchy.inputs is not None:
        return None
    clock = hierarchy.clocks or ()
    return tuple(sorted(wanted, key=lambda type: (type not in clock, type)))


def _ticking(hierarchy: Hierarchy) -> str | None:
    """The clock type that may be thinned, if there is one.

    Several clock types have offsets that are learned from all their events, and a learned clock
    looks at every event: there, each event has an effect.
    """
    clock = hierarchy.clocks
    if clock is None or len(clock) != 1 or clock[0] == EVERY:
        return None
    read = {type for node in hierarchy for type in node.on}
    return None if clock[0] in read or EVERY in read else clock[0]


def _check_slots(slots: object, by: str | None) -> None:
    if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
        raise OptionError(f"expected slots to be a whole number from 1, got slots={slots!r}")
    if by is None and slots != 1:
        raise OptionError(
            f"expected slots=1 without by=, got slots={slots}: only a stream that is split by a "
            "column can be spread over several slots; name the column with by="
        )
