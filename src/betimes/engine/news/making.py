"""Committing outputs: an event that a detector made gets its identity, its place and its time.

Identity is content: the same output made again, after a replay or a restart, is the same output.
A number tells equal outputs apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news.digests import Digests, digest_all, encode
from betimes.engine.news.digests.columns import halves_of
from betimes.engine.news.outputs import (
    COPY,
    Output,
    Outputs,
    Place,
    Places,
    spelled,
)
from betimes.engine.news.path import Path
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.model.batch import EventBatch
from betimes.model.coded import pick
from betimes.model.detector import DetectorError
from betimes.model.event import Event
from betimes.ordering import NEVER

Ints = npt.NDArray[np.int64]

FEW = 8
"""Fewer outputs than this should be rows: columns have a price of their own."""


class OutputMaker:
    """Makes the outputs of one detector."""

    def __init__(self, node: Node, level: int, options: EngineOptions) -> None:
        self.path = Path((NEVER, 0))
        self.copies: dict[str, int] = {}
        """Which numbers equal outputs have taken, as bits, by the digest of their content."""
        self._name = node.name
        self._digests = Digests(node.name)
        self._is_batch = node.maker.kind == "batch"
        self._level = level
        self._retention = options.kept.least
        self._grouped = options.by is not None
        self._group_of = partial(node.group, grouped=self._grouped)

    def make(
        self, event: Event, n: int, cause: Place, cause_type: str, at: int, key: Any
    ) -> Output:
        """The n-th event made from a cause, when the event with number `at` had arrived."""
        clock, slack = self.path.at(at)
        base = self._digest(event, n, cause, key)
        copy = 0
        if base in self.copies:
            copy = self._number(base)
        else:
            self.copies[base] = 1
        if clock == NEVER:
            clock = cause[0]
        early = cause[0] + slack - clock
        name = self._name
        tie = (name, encode(key), cause, n) if self._is_batch else (name, cause, n)
        # By position: this runs for every output, and keywords would take a third of the time.
        return Output(
            f"{base}-{copy}" if copy else base, event, (event.ts, self._level, tie), cause,
            cause_type, at, clock, slack, early if early > 0 else 0,
            self._group_of(key) if self._grouped else None, key, copy,
        )  # fmt: skip

    def make_all(
        self,
        events: list[Event],
        causes: list[Place],
        cause_types: Sequence[str],
        at: list[int],
        keys: Iterable[Any],
    ) -> list[Output]:
        """Several, in order; those of one cause are adjacent."""
        before, n = None, 0
        outputs = []
        # One key may stand for all.
        for event, cause, cause_type, seen, key in zip(  # noqa: B905
            events, causes, cause_types, at, keys
        ):
            n = n + 1 if cause == before else 0
            before = cause
            outputs.append(self.make(event, n, cause, cause_type, seen, key))
        return outputs

    def make_columns(
        self,
        events: EventBatch,
        causes: Ints,
        cause_places: Places,
        cause_types: Sequence[str],
        at: Ints,
        keys: list[Any],
        codes: Ints,
    ) -> Outputs:
        """Many at once, as columns: events of one type, with a table of payloads.

        `causes` has numbers that tell the places of causes apart, the first of which is the time;
        those of one cause are adjacent. The key of each output is `keys[code]`.
        """
        clocks, slacks = self.path.at_all(at)
        times = causes[0]
        clocks = np.where(clocks == NEVER, times, clocks)
        n = _numbered(causes)
        bases = self._digest_all(events, causes, cause_places, n, keys, codes)
        copies = self._number_all(bases)
        ids = bases
        if copies.any():
            pairs = zip(bases, copies.tolist(), strict=True)
            ids = [f"{base}-{copy}" if copy else base for base, copy in pairs]
        early = np.maximum(times + slacks - clocks, 0)
        numbers = np.stack((events.ts, times, at, clocks, slacks, early, copies))
        level, name = self._level, self._name

        def places() -> list[Place]:
            rows = zip(events.ts.tolist(), spelled(cause_places), n.tolist(), strict=True)
            return [(ts, level, (name, cause, which)) for ts, cause, which in rows]

        groups = None
        if self._grouped:
            groups = [self._group_of(keys[code]) for code in codes.tolist()]
        return Outputs(ids, numbers, events, places, cause_places, cause_types, groups, codes)

    def make_few(
        self,
        events: list[Event],
        causes: list[Place],
        cause_types: Sequence[str],
        at: list[int],
        keys: list[Any],
        codes: list[int],
    ) -> Outputs:
        """The same as rows."""
        outputs = self.make_all(events, causes, cause_types, at, pick(keys, codes))
        for output, code in zip(outputs, codes, strict=True):
            output.key = code
        return Outputs.of(outputs)

    # Identity

    def _digest(self, event: Event, n: int, cause: Place, key: Any) -> str:
        ts = event.ts
        # Equal ones may already be forgotten, so the cause tells them apart.
        more = (cause, n) if ts < cause[0] - self._retention else None
        try:
            return self._digests.digest(event.type, ts, key, event.payload, more)
        except (TypeError, OverflowError) as error:
            raise self._not_data(event.type, f"at {ts}", error) from error

    def _not_data(self, type: str, which: str, error: Exception) -> DetectorError:
        return DetectorError(
            f"detector {self._name!r} made a {type!r} event {which} whose payload cannot be "
            f"written: {error}; use numbers, text, lists and dictionaries"
        )

    def _digest_all(
        self,
        events: EventBatch,
        causes: Ints,
        cause_places: Places,
        n: Ints,
        keys: list[Any],
        codes: Ints,
    ) -> list[str]:
        payload = events.payload
        old = events.ts < causes[0] - self._retention
        if isinstance(payload, pa.Table) and not old.any():
            used, where = np.unique(codes, return_inverse=True)
            words = halves_of([keys[code] for code in used.tolist()])[:, where]
            try:
                return digest_all(self._digests, events.types[0], events.ts, words, payload)
            except (TypeError, OverflowError) as error:
                when = f"between {events.ts.min()} and {events.ts.max()}"
                raise self._not_data(events.types[0], when, error) from error
        rows = zip(events.rows(), n.tolist(), spelled(cause_places), codes.tolist(), strict=True)
        return [self._digest(event, which, cause, keys[code]) for event, which, cause, code in rows]

    def _number(self, base: str) -> int:
        """Its number among its equals."""
        taken = self.copies.get(base, 0)
        copy = (~taken & (taken + 1)).bit_length() - 1 if taken else 0
        self.copies[base] = taken | 1 << copy
        return copy

    def _number_all(self, bases: list[str]) -> Ints:
        if len(set(bases)) == len(bases) and self.copies.keys().isdisjoint(bases):
            self.copies.update(dict.fromkeys(bases, 1))
            return np.zeros(len(bases), np.int64)
        return np.array([self._number(base) for base in bases], np.int64)

    # Again

    def again(self, old: list[Output], new: list[Output]) -> tuple[list[Output], set[str]]:
        """What is made now, where what was known, and unmade, stays what it was; and which stay."""
        known = {(output.id, output.place): output for output in old}
        found = [known.get((output.id, output.place), output) for output in new]
        stay = {output.id for output, now in zip(found, new, strict=True) if output is not now}
        return found, stay

    def makes_again(self, output: Output, event: Event) -> bool:
        """Whether this event makes an output again that was made from the same cause, and unmade.

        Most outputs that a replay makes were known. Comparing them costs less than their digests.
        If in doubt, the answer is no, and digests decide.
        """
        if output.copy or output.id in self.copies or not _alike(output.event, event):
            return False
        self.copies[output.id] = 1
        return True

    def unmake(self, outputs: Iterable[Output]) -> None:
        """Free the numbers of outputs that a replay may make again, or that are forgotten."""
        if isinstance(outputs, Outputs) and not outputs.made_one_by_one:
            if outputs.numbers[COPY].any():
                self._free(zip(outputs.bases, outputs.numbers[COPY].tolist(), strict=True))
                return
            copies = self.copies
            for base in outputs.ids:
                taken = copies.pop(base, 0)
                if taken > 1:
                    copies[base] = taken & ~1
        else:
            self._free((output.base, output.copy) for output in outputs)

    def _free(self, numbered: Iterable[tuple[str, int]]) -> None:
        copies = self.copies
        for base, copy in numbered:
            taken = copies.pop(base, 0) & ~(1 << copy)
            if taken:
                copies[base] = taken

    def keep(self, outputs: Iterable[Output], new: Iterable[Output]) -> None:
        """Outputs that were unmade stay after all; a new one that took its number gets another."""
        for output in outputs:
            base = output.base
            taken = self.copies.get(base, 0)
            if taken >> output.copy & 1:
                thief = next(o for o in new if o.id == output.id and o is not output)
                thief.copy = taken.bit_length()
                thief.id = f"{base}-{thief.copy}"
                taken |= 1 << thief.copy
            self.copies[base] = taken | 1 << output.copy


_COMPARED = frozenset({int, str, bool, type(None)})
"""Types whose values have the same digest if they are equal; 0.0 equals -0.0, and lists change."""


def _alike(one: Event, other: Event) -> bool:
    """Whether two events certainly have the same content."""
    mine, yours = one.payload, other.payload
    if one.ts != other.ts or one.type != other.type or len(mine) != len(yours):
        return False
    for name, value in mine.items():
        known, kind = yours.get(name, yours), type(value)
        if kind is not type(known) or kind not in _COMPARED or value != known:
            return False
    return True


def _numbered(causes: Ints) -> Ints:
    """The number of each among those of its cause."""
    count = causes.shape[1]
    new = np.ones(count, np.bool_)
    new[1:] = (causes[:, 1:] != causes[:, :-1]).any(axis=0)
    at = np.arange(count)
    return at - np.maximum.accumulate(np.where(new, at, 0))
