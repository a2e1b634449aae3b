"""The protocol between the driver of a stage and its tactic.

The driver (`Stage`) knows order: what arrives, what the ordering unit hands out, what comes too
late, what is final, what is told. A **tactic** knows events: how they are kept until they are
handed out, how they are handled, and how to go back when one lands before others that were
handled. There is a folder for each tactic; which one runs a detector, the detector's description
says (`Node.tactic`).

A batch goes like this; the contract suite (`tests/engine/test_tactics.py`) checks it for each:

1. `read`: what of a batch of input events arrives here. Bad events are named; nothing changes.
2. `put`: arrivals are kept by the unit's row numbers. Above the first level, `join` puts outputs
   of other stages among them, and `withdraw` takes one out that was taken back.
3. `take`: the unit hands out rows; the tactic gives the events, in order of their places.
4. `handle`: events behind what was handled are put in their places and their keys go back; the
   others follow; then time passes. The tactic yields outputs and replays as they happen, and the
   driver tells them before it asks for more.
5. `tidy`, `forget`: what nobody can ask for any more is dropped.

Invariant: the outputs a tactic remembers are those that the detector makes when it is handed, key
by key and in order, the events it remembers, starting from its first snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.news import Output, Place
from betimes.engine.news.outputs import OutputMaker
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs, Mask
from betimes.engine.stages.failures import Failures
from betimes.engine.stages.retraction import Retraction
from betimes.engine.stats import StageCounts
from betimes.model.batch import EventBatch
from betimes.model.event import TICK, Event
from betimes.ordering.clock import EVERY

Ints = npt.NDArray[np.int64]
END = 2**63 - 1
NOTHING: Ints = np.empty(0, np.int64)

_MASKS = 64
"""Batches come with their types in many orders; this many of them are remembered."""


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

    @property
    def grouped(self) -> bool:
        """Whether the engine splits the stream."""
        return self.options.by is not None

    @cached_property
    def _masks(self) -> dict[tuple[str, ...], tuple[Mask, Mask]]:
        return {}

    def masks(self, types: tuple[str, ...]) -> tuple[Mask, Mask]:
        """Which of the types of a batch it takes, and which concern it at all."""
        known = self._masks.get(types)
        if known is None:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            known = tuple(map(self.node.takes, types)), tuple(map(self._sees, types))
            self._masks[types] = known
        return known

    def _sees(self, type: str) -> bool:
        """Whether input events of this type concern it: it takes them, or they move its clock."""
        clock = self.clock
        moves = clock is None or EVERY in clock or type in clock or type == TICK
        return moves or self.node.takes(type)


class Moment(NamedTuple):
    """How far the stage has come, as the driver knows it."""

    certain: int
    """Events up to this time can only be disturbed by one that breaks the slack."""
    final_to: int
    """Everything up to this time was final before this batch."""
    reach: int
    """Nothing before this time will be gone back to."""
    last: int
    """The number of the newest arrival."""
    time: int
    """How far time has come, for detectors that have deadlines."""


class Disturbance(msgspec.Struct):
    """What happened to the past of a key: in which segments, why, and at which arrival."""

    first: int
    last: int
    place: Place
    """The earliest place that is not what it was."""
    cause: tuple[str, Event]
    """What happened (late, retracted), and to which event."""
    at: int
    breach: bool
    """Whether it goes back to before what was certain."""

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
    """What going back led to: outputs before and after, and what on-demand retraction paid."""

    key: Any
    place: Place
    """The earliest place that was not what it had been."""
    at: int
    """The newest arrival among what was handled."""
    on_demand: bool
    why: str = ""
    """Why outputs are gone; empty if the outputs say so themselves."""
    old: list[Output] = []
    new: list[Output] = []
    handled: int = 0
    spared: int = 0
    """Events that did not have to be handled again."""
    comparing: float = 0.0
    """Seconds spent to find out."""
    process: float = 0.0
    """Seconds that it takes to handle an event."""


Told = Replay | list[Output]


class Handed(Protocol):
    """Events in order of their places, as a tactic keeps them."""

    def __len__(self) -> int: ...

    @property
    def ts(self) -> Ints: ...

    def place(self, row: int) -> Place: ...

    def event(self, row: int) -> Event:
        """The event itself, with its payload."""

    def output(self, row: int) -> Output | None:
        """The output of another stage that it is, if it is one."""

    def pick(self, rows: list[int]) -> Any:
        """Some of them, of the same kind."""


class Tactic(Protocol):
    """How the events of one detector are kept, handled and gone back to."""

    weighs: bool
    """Whether it compares states, so that techniques of retraction differ."""

    @property
    def passed(self) -> int | None:
        """How far time has come; None if time makes no difference to the detector."""

    def read(self, inputs: Inputs) -> Arrivals:
        """What of a batch of input events arrives here; bad events are named."""

    def put(self, row: int, arrivals: Arrivals) -> None:
        """Keep arrivals; `row` is the unit's number of the first."""

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[Any, Ints]:
        """The events of these rows, and which rows they are; `at` is when each was handed out."""

    def drop(self, rows: Ints) -> None:
        """These rows were rejected and will not be handed out."""

    def handle(self, events: Any, moment: Moment) -> Iterator[Told]:
        """Handle events, and go back where they disturb what was handled."""

    def tidy(self, held: Ints) -> None:
        """A batch is done; the unit holds these rows."""

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        """Forget what was handled before a time; give back the outputs of that time."""

    def outputs(self) -> Iterable[Output]:
        """All outputs that are remembered, in a fixed order."""

    def state_of(self) -> dict[str, Any]:
        """All that must be kept to resume elsewhere, as data; outputs are kept by the driver."""

    def resume(self, kept: dict[str, Any], outputs: Iterator[Output]) -> None:
        """Resume from what `state_of` kept, with the outputs in the same order."""

    @property
    def remembered(self) -> int:
        """How many handled events it could go back to."""

    def snapshots(self) -> tuple[int, int]:
        """How many states it could go back to, and what they take in bytes."""


class UpperTactic(Tactic, Protocol):
    """A tactic that can also run above the first level, on what other detectors publish."""

    def join(
        self, arrivals: Arrivals, joined: EventBatch, at: Ints, was: Ints, made: dict[int, Output]
    ) -> Arrivals:
        """Arrivals with outputs of other stages among them.

        `joined` are the columns of both, `at` their arrivals; `was` says where the input events
        are now, `made` where the outputs are.
        """

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        """An event from below was taken back: its row if it still waits, else its key goes back."""


TacticMaker = Callable[[Setting], Tactic]
UpperTacticMaker = Callable[[Setting], UpperTactic]
