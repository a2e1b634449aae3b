"""Committing outputs: an event that a detector made gets its identity, its place and its time.

Identity is content: the same output made again, after a replay or a restart, is the same output.
A number tells equal outputs apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.news.news import Output, Place
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.model import microseconds
from betimes.model.detector import DetectorError
from betimes.model.event import Event
from betimes.ordering import NEVER

Ints = npt.NDArray[np.int64]

_NONE: Ints = np.empty(0, np.int64)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} (a {type(value).__name__}) is not data")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="sorted")
_encode = _ENCODER.encode


def encode(content: object) -> bytes:
    """Data as bytes that are equal if and only if the data is."""
    return _ENCODER.encode(content)


class Path:
    """Clock and slack of a stage along the arrivals of a batch."""

    __slots__ = ("_arrivals", "_before", "_bounds", "_clocks", "_dense", "_first", "_slacks")

    def __init__(
        self,
        before: tuple[int, int],
        arrivals: Ints = _NONE,
        clocks: Ints = _NONE,
        slacks: Ints = _NONE,
        bounds: Ints = _NONE,
        *,
        increasing: bool = False,
    ) -> None:
        self._before = before
        self._arrivals = arrivals
        self._clocks = clocks
        self._slacks = slacks
        self._bounds = bounds
        """How far time had come before the batch, then after each arrival; empty if unused."""
        self._first = int(arrivals[0]) if len(arrivals) else 0
        as_many = bool(len(arrivals)) and arrivals[-1] - self._first == len(arrivals) - 1
        # Outputs from below carry the number of an input event, and others may be missing here.
        self._dense = as_many and (increasing or bool((np.diff(arrivals) == 1).all()))

    def at(self, arrival: int) -> tuple[int, int]:
        """Clock and slack when the event with this number had arrived."""
        count = len(self._arrivals)
        # Most stages see every arrival; then its number is its index.
        index = arrival - self._first
        if not (self._dense and 0 <= index < count):
            index = int(self._arrivals.searchsorted(arrival, side="right")) - 1
        if index < 0:
            return self._before
        return int(self._clocks[index]), int(self._slacks[index])

    def at_all(self, arrivals: Ints) -> tuple[Ints, Ints]:
        """Clock and slack when the events with these numbers had arrived."""
        clocks, slacks = (np.full(len(arrivals), value) for value in self._before)
        index = self._arrivals.searchsorted(arrivals, side="right") - 1
        known = np.flatnonzero(index >= 0)
        clocks[known], slacks[known] = self._clocks[index[known]], self._slacks[index[known]]
        return clocks, slacks

    def reaches(self, ts: int) -> int:
        """The arrival of the batch with which time reaches `ts`; -1 if it was there before."""
        index = min(int(self._bounds.searchsorted(ts)), len(self._arrivals)) - 1
        return int(self._arrivals[index]) if index >= 0 else -1

    @property
    def time(self) -> int:
        """How far time has come; -1 if nobody asks."""
        return int(self._bounds[-1]) if len(self._bounds) else -1

    @property
    def end(self) -> tuple[int, int]:
        """Clock and slack now."""
        if not len(self._clocks):
            return self._before
        return int(self._clocks[-1]), int(self._slacks[-1])


class OutputMaker:
    """Makes the outputs of one detector."""

    def __init__(self, node: Node, rank: int, options: EngineOptions) -> None:
        self.path = Path((NEVER, 0))
        self.copies: dict[str, int] = {}
        """Which numbers equal outputs have taken, as bits, by the hash of their content."""
        self._name = node.name
        self._is_batch = node.maker.kind == "batch"
        self._rank = rank
        self._retention = microseconds(options.retention)
        self._group_of = partial(node.group, grouped=options.by is not None)

    def make(
        self, event: Event, n: int, cause: Place, cause_event: Event, at: int, key: Any
    ) -> Output:
        """The n-th event made from a cause, when the event with number `at` had arrived."""
        clock, slack = self.path.at(at)
        base, copy = self._identity(event, n, cause, key)
        if clock == NEVER:
            clock = cause[0]
        tie: tuple[Any, ...] = (encode(key), cause, n) if self._is_batch else (cause, n)
        early = cause[0] + slack - clock
        # By position: this runs for every output, and keywords would take a third of the time.
        return Output(
            f"{base}-{copy}" if copy else base, event, (event.ts, self._rank, tie), cause,
            cause_event, at, clock, slack, early if early > 0 else 0, self._group_of(key), key,
            base, copy,
        )  # fmt: skip

    def make_all(
        self,
        events: list[Event],
        causes: list[Place],
        cause_events: list[Event],
        at: Ints,
        keys: Iterable[Any],
        marks: Iterable[Any],
    ) -> list[Output]:
        """Many at once; those of one cause are adjacent.

        `at` has the number of the newest arrival when each was made, `marks` what the outputs carry
        for a key.
        """
        rank, identity, group_of = self._rank, self._identity, self._group_of
        clocks, slacks = self.path.at_all(at)
        when = (at.tolist(), clocks.tolist(), slacks.tolist())
        before, n = None, 0
        outputs = []
        # One key may stand for all.
        rows = zip(events, causes, cause_events, *when, keys, marks, strict=False)
        for event, cause, cause_event, seen, clock, slack, key, mark in rows:
            n = n + 1 if cause == before else 0
            before = cause
            base, copy = identity(event, n, cause, key)
            now = cause[0] if clock == NEVER else clock
            early = cause[0] + slack - now
            tie = (encode(key), cause, n) if self._is_batch else (cause, n)
            outputs.append(Output(
                f"{base}-{copy}" if copy else base, event, (event.ts, rank, tie), cause,
                cause_event, seen, now, slack, early if early > 0 else 0, group_of(key), mark,
                base, copy,
            ))  # fmt: skip
        return outputs

    def _identity(self, event: Event, n: int, cause: Place, key: Any) -> tuple[str, int]:
        """The hash of its content, and its number among its equals."""
        ts = event.ts
        content: tuple[Any, ...] = (self._name, key, event.type, ts, event.payload)
        if ts < cause[0] - self._retention:
            # Equal ones may already be forgotten, so the cause tells them apart.
            content = (*content, cause, n)
        try:
            base = blake2b(_encode(content), digest_size=12).hexdigest()
        except TypeError as error:
            raise DetectorError(
                f"detector {self._name!r} made a {event.type!r} event at {ts} whose payload "
                f"cannot be written: {error}; use numbers, text, lists and dictionaries"
            ) from error
        taken = self.copies.get(base, 0)
        copy = (~taken & (taken + 1)).bit_length() - 1 if taken else 0
        self.copies[base] = taken | 1 << copy
        return base, copy

    def again(self, old: list[Output], new: list[Output]) -> list[Output]:
        """The outputs that are made now; those that were known, and unmade, stay what they were."""
        known = {(output.id, output.place): output for output in old}
        return [known.get((output.id, output.place), output) for output in new]

    def unmake(self, outputs: Iterable[Output]) -> None:
        """Free the numbers of outputs that a replay may make again, or that are forgotten."""
        copies = self.copies
        for output in outputs:
            taken = copies.get(output.base, 0) & ~(1 << output.copy)
            if taken:
                copies[output.base] = taken
            else:
                copies.pop(output.base, None)

    def keep(self, outputs: Iterable[Output], new: Iterable[Output]) -> None:
        """Outputs that were unmade stay after all; a new one that took its number gets another."""
        for output in outputs:
            taken = self.copies.get(output.base, 0)
            if taken >> output.copy & 1:
                thief = next(o for o in new if o.id == output.id and o is not output)
                thief.copy = taken.bit_length()
                thief.id = f"{thief.base}-{thief.copy}"
                taken |= 1 << thief.copy
            self.copies[output.base] = taken | 1 << output.copy
