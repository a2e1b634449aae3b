"""The protocol between the driver of a stage and its tactic.

The driver (`Stage`) knows order: what arrives, what the ordering unit hands out, what comes too
late, what is final, what is published. A **tactic** knows events: how they are kept until they are
handed out, how they are handled, and how to go back when one lands before handled ones. Each tactic
has a folder; the detector's description says which one runs it (`Node.tactic`).

This is the course of a batch; the contract suite (`tests/engine/test_tactics.py`) checks it for
each tactic:

1. `read`: which input events of a batch arrive here. A bad event is an error; nothing changes.
2. `put`: arrivals are kept by the unit's row numbers. Above the first level, `join` adds outputs of
   other stages to them, and `withdraw` removes one that was taken back.
3. `take`: the unit hands out rows; the tactic returns the events, in order of their places.
4. `handle`: events that land before handled ones are put in their places, and their keys go back;
   the others follow; then time passes. The tactic yields outputs and replays as they happen; the
   driver gathers them and publishes all at the end of the batch.
5. `tidy`, `forget`: what nobody can ask for any more is dropped.

Invariant: the outputs that a tactic remembers are those that the detector makes from the remembered
events, handed over key by key and in order, starting from the first snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.making import OutputMaker
from betimes.engine.news.outputs import NO_OUTPUTS, Output, Outputs, Place
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs, Mask
from betimes.engine.stages.failures import Failures
from betimes.engine.stages.retraction import Retraction
from betimes.engine.stats import StageCounts
from betimes.model.batch import EventBatch
from betimes.model.event import TICK, Event
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.ordering.clock import EVERY

Ints = npt.NDArray[np.int64]
END = 2**63 - 1
NOTHING: Ints = np.empty(0, np.int64)

_MASKS = 64
"""Batches list their types in many orders; this many of these are remembered."""


@dataclass(frozen=True)
class Setting:
    """What a tactic works with."""

    node: Node
    options: EngineOptions
    clock: tuple[str, ...] | None
    """The types that move the clock; None if they are learned."""
    outputs: OutputMaker
    """Commits what was made: gives it identity, place and time."""
    failures: Failures
    retraction: Retraction
    counts: StageCounts
    time: Callable[[], float]
    cores: int | None = None
    """How many cores it may use; None if all that there are."""
    foresight: Any = None
    """What others run ahead of the engine, for tactics that can use it."""

    @property
    def what(self) -> str:
        """The state of the detector, in errors."""
        return f"the state of detector {self.node.name!r}"

    @property
    def grouped(self) -> bool:
        """Whether the engine splits the stream."""
        return self.options.by is not None

    @cached_property
    def _masks(self) -> dict[tuple[str, ...], tuple[Mask, Mask]]:
        return {}

    def masks(self, types: tuple[str, ...]) -> tuple[Mask, Mask]:
        """Which types of a batch it takes, and which it needs at all."""
        known = self._masks.get(types)
        if known is None:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            known = tuple(map(self.node.takes, types)), tuple(map(self._sees, types))
            self._masks[types] = known
        return known

    def _sees(self, type: str) -> bool:
        """Whether it needs input events of this type: it takes them, or they move its clock.

        If sources have their own clocks, it must hear all of them.
        """
        return self.options.source is not None or self.moves(type) or self.node.takes(type)

    def moves(self, type: str) -> bool:
        """Whether input events of this type may move its clock."""
        clock = self.clock
        return clock is None or EVERY in clock or type in clock or type == TICK


class Moment(NamedTuple):
    """How far the stage has come, as the driver sees it."""

    certain: int
    """Only an event delayed by more than the slack can disturb events up to this time."""
    final_to: int
    """Everything up to this time was final before this batch."""
    reach: int
    """Nothing goes back to before this time."""
    last: int
    """The number of the newest arrival."""
    time: int
    """How far time has come, for detectors with deadlines."""


class Disturbance(msgspec.Struct):
    """What happened to the past of a key: in which segments, and why."""

    first: int
    last: int
    place: Place
    """The earliest place that changed."""
    cause: tuple[str, Event]
    """What happened (late, retracted), and to which event."""
    at: int
    """The arrival with which events were taken back; -1 if none were: late ones bring theirs."""
    breach: bool
    """Whether it goes back to something that was certain."""

    @property
    def why(self) -> str:
        what, event = self.cause
        return f"{what} {event.type} at {event.ts}"

    def add(self, other: Disturbance) -> None:
        """Something else happened to the same key."""
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.place = min(self.place, other.place)
        self.at = max(self.at, other.at)
        self.breach = self.breach or other.breach


class Replay(msgspec.Struct):
    """The result of going back: outputs before and after, and what comparing cost."""

    key: Any
    place: Place
    """The earliest place that changed."""
    at: int
    """The newest arrival among what was handled."""
    on_demand: bool
    why: str | list[str] = ""
    """Why outputs are gone: all of them, or each of those that did not come again."""
    old: list[Output] = []
    new: list[Output] = []
    stay: set[str] = set()
    """Which of the old outputs are also among the new ones."""
    handled: int = 0
    spared: int = 0
    """Events that did not have to be handled again."""
    comparing: float = 0.0
    """Seconds spent on comparing states."""
    process: float = 0.0
    """Seconds to handle an event."""


class ColumnReplay(Replay):
    """The result of going back, as columns: only what has changed."""

    gone: Outputs = NO_OUTPUTS
    fresh: Outputs = NO_OUTPUTS


Told = Replay | Outputs


class Joined(NamedTuple):
    """Input events, notices and outputs of other stages, in the order of their arrival."""

    batch: EventBatch
    """Columns for the ordering unit."""
    at: Ints
    was: Ints
    """Where the input events are."""
    now: Ints
    """Where the outputs are."""
    outputs: Outputs


class Handed(Protocol):
    """Events in order of their places, as a tactic keeps them."""

    def __len__(self) -> int: ...

    @property
    def ts(self) -> Ints: ...

    def place(self, row: int) -> Place: ...

    def event(self, row: int) -> Event:
        """The event itself, with its payload."""

    def output(self, row: int) -> str | None:
        """The identity of the output of another stage behind it; None for an input event."""

    def pick(self, rows: Ints) -> Any:
        """Some of them, of the same kind."""


class Tactic(Protocol):
    """How the events of one detector are kept and handled, and how it goes back."""

    weighs: bool
    """Whether it compares states, so that the retraction technique makes a difference."""
    reads_rows: bool
    """Whether `read` takes events as they are, and only their keys can be wrong."""

    @property
    def passed(self) -> int | None:
        """How far time has come; None if time makes no difference to the detector."""

    @property
    def next_due(self) -> int:
        """Before this time, nothing happens just because time passes."""

    def let_pass(self, time: int) -> None:
        """Time comes to here, if it has not come further; nothing is due, nothing else happens."""

    def read(self, inputs: Inputs) -> Arrivals:
        """Which input events of a batch arrive here; a bad event is an error that names it."""

    def join(self, arrivals: Arrivals, joined: Joined) -> Arrivals:
        """Arrivals with outputs of other stages among them."""

    def put(self, row: int, arrivals: Arrivals) -> None:
        """Keep arrivals; `row` is the unit's number of the first."""

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        """An output from below was taken back: return its row if it waits, else disturb its key."""

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[Any, Ints]:
        """The events of these rows, and which rows they are; `at` is when each was handed out."""

    def handle(self, events: Any, moment: Moment) -> Iterator[Told]:
        """Handle events, and go back where they disturb what was handled."""

    def tidy(self, held: Ints) -> None:
        """A batch is done; the unit holds these rows."""

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        """Forget what was handled before a time; return the outputs that are forgotten."""

    def outputs(self) -> Outputs:
        """All outputs that are remembered, in a fixed order."""

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        """Everything needed to resume elsewhere, as data.

        History goes into volumes; up to the settled time, it is not expected to change any more.
        """

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        """Resume from what `state_of` kept; outputs are in the same order."""

    def history(self) -> list[tuple[int, int]]:
        """The pieces that can be forgotten: the time at which each begins, and about its bytes."""

    @property
    def remembered(self) -> int:
        """How many handled events it could go back to."""

    def snapshots(self) -> tuple[int, int]:
        """How many states it could go back to, and their size in bytes."""

    def parts(self) -> dict[str, dict[str, float]]:
        """Counts of each part, if it has parts that go back alone."""


TacticMaker = Callable[[Setting], Tactic]
