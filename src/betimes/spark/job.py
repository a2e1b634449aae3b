"""What is to be detected, in a form that travels: checked on the driver, read by the workers.

A `Job` is data (names of columns, options of the engine) and the hierarchy as bytes, which a worker
unpacks only when it has to build an engine. Its *identity* is what the state of a running query
rests on: an engine's state written under one identity is never read under another.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from betimes.engine import Calibration, CheckpointError, Engine, Hierarchy
from betimes.model import Duration, OptionError, microseconds
from betimes.ordering.clock import EVERY
from betimes.spark.shipping import ship

FORMAT = 1
"""Layout of the state; a state of another layout is refused."""

SLOT = "slot"
"""The column of the changes that says which slot found them."""

ROW_SLOT = "_betimes_slot"
"""The column that carries the slot of an input row until rows are packed."""

MOST_NUMBERED = 16
"""The number of a type is looked for one by one; if there are more, types travel as text."""

_FREE = frozenset({"attenuation", "retraction", "checkpoints", "errors", "zone", "calibration"})
"""Options that may differ between a run and its restart: no state depends on them."""

_REFUSED = frozenset({"time", "by", "order"})
"""Options of an engine that have a place of their own here, or cannot be shipped."""


@dataclass(frozen=True)
class Job:
    """One call of `detect`: where events come from, what is detected, how the work is divided."""

    hierarchy_bytes: bytes = field(repr=False)
    time: str
    type: str
    arrival: str | None
    by: str | None
    order: str
    slots: int
    results: str
    idle: int
    """After so many milliseconds without an event time passes; 0 if it never does."""
    identity: str
    """What the state rests on, as JSON."""
    wanted: tuple[str, ...] | None
    """The types of events that an engine looks at; None if it may be any."""
    numbered: tuple[str, ...] | None
    """The types of all rows that get as far as Python, by number; None if they come as text."""
    ticking: str | None
    """The type of clock events that only move the clock, if they may be thinned."""
    narrow: bool = field(default=False, kw_only=True)
    """Whether no row that goes to Python can be large."""
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        hierarchy: Hierarchy,
        *,
        time: str,
        type: str,
        arrival: str | None,
        by: str | None,
        order: str,
        slots: int,
        results: str,
        options: dict[str, Any],
        idle: Duration | None = None,
    ) -> Job:
        """Check everything that can be checked without data."""
        _check_choices(results, slots, by, options)
        if results == "final":
            options = {"late": "side", "attenuation": 1.0} | options
        if options.get("calibration") is not None:
            # Read here: workers need not reach the file.
            options = options | {"calibration": Calibration.of(options["calibration"])}
        identity = {
            "format": FORMAT,
            "hierarchy": f"clock {hierarchy.clock}\n{hierarchy.explain()}",
            "patterns": [repr(node.pattern) for node in hierarchy if node.pattern is not None],
            "time": time,
            "type": type,
            "arrival": arrival,
            "by": by,
            "order": order,
            "slots": slots,
            **{name: repr(options[name]) for name in sorted(options) if name not in _FREE},
        }
        wanted = _wanted(hierarchy)
        job = cls(
            ship(hierarchy), time, type, arrival, by, order, slots, results,
            idle=0 if idle is None else max(1, microseconds(idle, "idle") // 1000),
            identity=json.dumps(identity), wanted=wanted, numbered=_numbered(hierarchy, wanted),
            ticking=_ticking(hierarchy), options=options,
        )  # fmt: skip
        job.engine()
        return job

    def engine(self) -> Engine:
        """A new engine for one slot."""
        options = dict(self.options)
        if options.get("attenuation", "adaptive") == "adaptive":
            # Steered from outside, so that the log can say with what each batch was handled.
            options["attenuation"] = 1.0
        return Engine(self.hierarchy, by=self.by, order=self.order, **options)

    @property
    def adaptive(self) -> bool:
        return bool(self.options.get("attenuation", "adaptive") == "adaptive")

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """Unpacked once in a process; made by `ship` in the driver of this very query."""
        hierarchy = pickle.loads(self.hierarchy_bytes)
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(f"expected a Hierarchy to be shipped, got {hierarchy!r}")
        return hierarchy

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "hierarchy"}

    def check_identity(self, stored: str, where: str) -> None:
        """Refuse a state that was written by another job."""
        if stored == self.identity:
            return
        theirs, ours = json.loads(stored), json.loads(self.identity)
        if theirs.get("format") != ours["format"]:
            raise CheckpointError(
                f"expected state of format {ours['format']} in {where}, got format "
                f"{theirs.get('format')}: another version of betimes wrote it; finish the stream "
                "with that version, or begin with a new checkpoint location"
            )
        names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
        lines = [f"  {name}: {theirs.get(name)} there, {ours.get(name)} here" for name in names]
        raise CheckpointError(
            f"expected {where} to belong to this job, but it was written by one with other "
            "settings:\n" + "\n".join(lines) + "\n"
            "use the settings of the checkpoint, or begin with a new checkpoint location"
        )


def _wanted(hierarchy: Hierarchy) -> tuple[str, ...] | None:
    if hierarchy.clock is None:
        return None
    types = {type for node in hierarchy for type in node.on} | set(hierarchy.clock)
    return None if EVERY in types else tuple(sorted(types))


def _numbered(hierarchy: Hierarchy, wanted: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Clock events come first: most rows are, and the first number is found first."""
    # Types that were not declared come through to be refused by name.
    if wanted is None or len(wanted) > MOST_NUMBERED or hierarchy.inputs is not None:
        return None
    clock = hierarchy.clock or ()
    return tuple(sorted(wanted, key=lambda type: (type not in clock, type)))


def _ticking(hierarchy: Hierarchy) -> str | None:
    """Several clock types teach their offsets to each other, and a clock that is learned looks at
    all: there, no event is without effect.
    """
    clock = hierarchy.clock
    if clock is None or len(clock) != 1 or clock[0] == EVERY:
        return None
    read = {type for node in hierarchy for type in node.on}
    return None if clock[0] in read or EVERY in read else clock[0]


def _check_choices(results: str, slots: int, by: str | None, options: dict[str, Any]) -> None:
    if results not in ("provisional", "final"):
        raise OptionError(
            f"expected results to be 'provisional' or 'final', got results={results!r}"
        )
    if results == "final" and options.get("late") == "repair":
        raise OptionError(
            "results='final' gives rows that are never taken back, but late='repair' takes back "
            "even final ones; use late='side', or results='provisional'"
        )
    if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
        raise OptionError(f"expected slots to be a whole number from 1, got slots={slots!r}")
    if by is None and slots != 1:
        raise OptionError(
            f"expected slots=1 without by=, got slots={slots}: only a stream that is split by a "
            "column can be spread over several slots; name it with by="
        )
    for name in _REFUSED.intersection(options):
        raise OptionError(f"{name}= is no option of the engines of detect(); leave it out")
