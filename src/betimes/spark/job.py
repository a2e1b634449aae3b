"""What to detect, in a form that travels: checked on the driver, read by the workers.

A `Job` is data (names of columns, options of the engine) and the hierarchy as bytes, which a worker
unpacks only when it has to build an engine. Its *identity* is what the stored state of a query
depends on: state written under one identity is never read under another.
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
"""Layout of the state; state with another layout is refused."""

SLOT = "slot"
"""The column of the changes that says which slot found them."""

ROW_SLOT = "_betimes_slot"
"""The column that carries the slot of an input row until rows are packed."""

MOST_NUMBERED = 16
"""The number of a type is found by comparing one by one; more types than this travel as text."""

_FREE = frozenset({"attenuation", "retraction", "snapshots", "errors", "zone", "calibration"})
"""Options that may change with a restart: no state depends on them."""

_REFUSED = frozenset({"time", "by", "order"})
"""Options of an engine that are separate fields here."""


@dataclass(frozen=True)
class Job:
    """One call of `detect`: where events come from, what to detect, how to divide the work."""

    hierarchy_bytes: bytes = field(repr=False)
    time: str
    type: str
    arrival: str | None
    by: str | None
    order: str
    slots: int
    results: str
    idle: int
    """Milliseconds without an event after which time passes; 0 if it never does."""
    identity: str
    """What the state depends on, as JSON."""
    wanted: tuple[str, ...] | None
    """The types of events that an engine looks at; None if it looks at all."""
    numbered: tuple[str, ...] | None
    """The types of all rows that reach Python, by number; None if types travel as text."""
    ticking: str | None
    """The type of clock events, if they only move the clock and may be thinned."""
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
            # Read here, because workers may not be able to reach the file.
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
            # Controlled from outside, so that the log can say how each batch was handled.
            options["attenuation"] = 1.0
        return Engine(self.hierarchy, by=self.by, order=self.order, **options)

    @property
    def adaptive(self) -> bool:
        return bool(self.options.get("attenuation", "adaptive") == "adaptive")

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """Unpacked once per process; the bytes come from `ship` in the driver of this query."""
        hierarchy = pickle.loads(self.hierarchy_bytes)
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(f"expected a Hierarchy to be shipped, got {hierarchy!r}")
        return hierarchy

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "hierarchy"}

    def check_identity(self, stored: str, where: str) -> None:
        """Refuse state that another job wrote."""
        if stored == self.identity:
            return
        theirs, ours = json.loads(stored), json.loads(self.identity)
        if theirs.get("format") != ours["format"]:
            raise CheckpointError(
                f"expected state of format {ours['format']} in {where}, got format "
                f"{theirs.get('format')}: another version of betimes wrote it; finish the stream "
                "with that version, or start with a new checkpoint location"
            )
        names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
        lines = [f"  {name}: {theirs.get(name)} there, {ours.get(name)} here" for name in names]
        raise CheckpointError(
            f"{where} belongs to another job, one with other settings:\n"
            + "\n".join(lines)
            + "\nuse the settings of the checkpoint, or start with a new checkpoint location"
        )


def _wanted(hierarchy: Hierarchy) -> tuple[str, ...] | None:
    if hierarchy.clock is None:
        return None
    types = {type for node in hierarchy for type in node.on} | set(hierarchy.clock)
    return None if EVERY in types else tuple(sorted(types))


def _numbered(hierarchy: Hierarchy, wanted: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Clock types come first: most rows have one, and the first number is found first."""
    # Types that were not declared must come through, to be refused by name.
    if wanted is None or len(wanted) > MOST_NUMBERED or hierarchy.inputs is not None:
        return None
    clock = hierarchy.clock or ()
    return tuple(sorted(wanted, key=lambda type: (type not in clock, type)))


def _ticking(hierarchy: Hierarchy) -> str | None:
    """The clock type that may be thinned, if there is one.

    Several clock types have offsets that are learned from all their events, and a learned clock
    looks at every event: there, each event has an effect.
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
            "column can be spread over several slots; name the column with by="
        )
    for name in _REFUSED.intersection(options):
        raise OptionError(f"{name}= is not an option of the engines of detect(); leave it out")
