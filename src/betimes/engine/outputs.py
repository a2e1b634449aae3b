"""Making outputs: an event that a detector made gets its identity, its place and its time.

Identity is content: the same output made again, after a replay or a restart, is the same output.
Equal outputs are told apart by a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from betimes.engine.hierarchy import Node
from betimes.engine.messages import Output, Place
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
    ) -> None:
        self._before = before
        self._arrivals = arrivals
        self._clocks = clocks
        self._slacks = slacks
        self._bounds = bounds
        """How far time had come before the batch, then after each arrival; only where asked for."""
        self._first = int(arrivals[0]) if len(arrivals) else 0
        self._dense = bool(len(arrivals)) and arrivals[-1] - self._first == len(arrivals) - 1

    def at(self, arrival: int) -> tuple[int, int]:
        """Clock and slack when an event of this number had arrived."""
        count = len(self._arrivals)
        # Most stages see every arrival, and then its number tells where it is.
        index = arrival - self._first
        if not (self._dense and 0 <= index < count):
            index = int(self._arrivals.searchsorted(arrival, side="right")) - 1
        if index < 0:
            return self._before
        return int(self._clocks[index]), int(self._slacks[index])

    def reaches(self, ts: int) -> int:
        """With which arrival of the batch time comes to `ts`; -1 if it had come there before."""
        index = min(int(self._bounds.searchsorted(ts)), len(self._arrivals)) - 1
        return int(self._arrivals[index]) if index >= 0 else -1

    @property
    def time(self) -> int:
        """How far time has come; -1 where nobody asks."""
        return int(self._bounds[-1]) if len(self._bounds) else -1

    @property
    def end(self) -> tuple[int, int]:
        """Clock and slack now."""
        if not len(self._clocks):
            return self._before
        return int(self._clocks[-1]), int(self._slacks[-1])


class OutputMaker:
    """Makes the outputs of one detector."""

    def __init__(
        self, node: Node, rank: int, group_of: Callable[[Any], Any], retention: int
    ) -> None:
        self.path = Path((NEVER, 0))
        self.copies: dict[str, set[int]] = {}
        self._name = node.name
        self._is_batch = node.maker.kind == "batch"
        self._rank = rank
        self._retention = retention
        self._group_of = group_of

    def make(
        self, event: Event, n: int, cause: Place, cause_event: Event, at: int, key: Any
    ) -> Output:
        """The n-th event made from a cause, when the event of number `at` had arrived."""
        content: tuple[Any, ...] = (self._name, key, event.type, event.ts, event.payload)
        if event.ts < cause[0] - self._retention:
            # Equal ones may be forgotten already: told apart by what they were made from.
            content = (*content, cause, n)
        try:
            base = blake2b(encode(content), digest_size=12).hexdigest()
        except TypeError as error:
            raise DetectorError(
                f"detector {self._name!r} made a {event.type!r} event at {event.ts} whose payload "
                f"cannot be written: {error}; use numbers, text, lists and dictionaries"
            ) from error
        copies = self.copies.setdefault(base, set())
        copy = 0
        while copy in copies:
            copy += 1
        copies.add(copy)
        clock, slack = self.path.at(at)
        if clock == NEVER:
            clock = cause[0]
        tie: tuple[Any, ...] = (encode(key), cause, n) if self._is_batch else (cause, n)
        return Output(
            id=f"{base}-{copy}" if copy else base,
            event=event,
            place=(event.ts, self._rank, tie),
            cause=cause,
            cause_event=cause_event,
            at=at,
            detected_at=clock,
            slack=slack,
            head_start=max(0, cause[0] + slack - clock),
            group=self._group_of(key),
            key=key,
            base=base,
            copy=copy,
        )

    def unmake(self, outputs: Iterable[Output]) -> None:
        """Free the numbers of outputs that will be made again, or not, or are forgotten."""
        for output in outputs:
            copies = self.copies.get(output.base)
            if copies is not None:
                copies.discard(output.copy)
                if not copies:
                    del self.copies[output.base]

    def keep(self, outputs: Iterable[Output], new: Iterable[Output]) -> None:
        """Outputs that were unmade stay after all; new ones that took their number get another."""
        for output in outputs:
            copies = self.copies.setdefault(output.base, set())
            if output.copy in copies:
                thief = next(o for o in new if o.id == output.id and o is not output)
                thief.copy = max(copies) + 1
                thief.id = f"{thief.base}-{thief.copy}"
                copies.add(thief.copy)
            copies.add(output.copy)
