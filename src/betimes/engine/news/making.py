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

from betimes.engine.news.copies import Copies
from betimes.engine.news.digests import Digests, digest_all, encode
from betimes.engine.news.digests.columns import halves_of, shape_of, words_of
from betimes.engine.news.digests.few import LENGTH, identify
from betimes.engine.news.digests.kernel import Words
from betimes.engine.news.outputs import (
    COPY,
    Output,
    Outputs,
    Place,
    Places,
    spelled,
)
from betimes.engine.news.path import Path
from betimes.engine.news.places import made_at
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch, pick
from betimes.model.coded import Coded
from betimes.model.detector import DetectorError
from betimes.model.event import Event
from betimes.ordering import NEVER

Ints = npt.NDArray[np.int64]

Identities = tuple[Words, list[str]]
"""Digests, as numbers and spelled."""
FEW = 8
"""Fewer outputs than this should be rows: columns have a price of their own."""


_MOST = 2**63 - 1
"""Beyond this, an array cannot hold it: what is made at the end of the stream has no head start."""


class OutputMaker:
    """Makes the outputs of one detector."""

    def __init__(self, node: Node, level: int, options: EngineOptions) -> None:
        self.path = Path((NEVER, 0))
        self.copies = Copies()
        self._name = node.name
        self._digests = Digests(node.name)
        self._keys: tuple[list[Any], Words] = ([], np.empty((2, 0), np.uint64))
        """Keys, and a piece for each."""
        self._is_batch = node.maker.kind == "batch"
        self._level = level
        self._retention = options.kept.least
        self._grouped = options.by is not None
        self._group_of = partial(node.group, grouped=self._grouped)

    def make(
        self, event: Event, n: int, cause: Place, cause_type: str, at: int, key: Any
    ) -> Output:
        """The n-th event made from a cause, when the event with number `at` had arrived."""
        (output,) = self.make_all([event], [cause], [cause_type], [at], [key], n)
        return output

    def make_all(
        self,
        events: list[Event],
        causes: list[Place],
        cause_types: Sequence[str],
        at: list[int],
        keys: Iterable[Any],
        first: int = 0,
    ) -> list[Output]:
        """Several, in order; those of one cause are adjacent, and `first` is the first's number."""
        path_at, digest, take, grouped = self.path.at, self._digest, self.copies.take, self._grouped
        level, name, is_batch = self._level, self._name, self._is_batch
        outputs: list[Output] = []
        before, n = None, first
        # By position, and one key may stand for all: this runs for every output.
        for event, cause, cause_type, seen, key in zip(  # noqa: B905
            events, causes, cause_types, at, keys
        ):
            if before is not None:
                n = n + 1 if cause == before else 0
            before, due = cause, cause[0]
            clock, slack = path_at(seen)
            base = digest(event, n, cause, key)
            copy = take(base)
            if clock == NEVER:
                clock = due
            early = due + slack - clock
            tie = (name, encode(key), cause, n) if is_batch else (name, cause, n)
            outputs.append(Output(
                f"{base}-{copy}" if copy else base, event, (event.ts, level, tie), cause,
                cause_type, seen, clock, slack, early if 0 < early <= _MOST else 0,
                self._group_of(key) if grouped else None, key, copy,
            ))  # fmt: skip
        return outputs

    def make_columns(
        self,
        events: EventBatch,
        causes: Ints,
        cause_places: Places,
        cause_types: Coded,
        at: Ints,
        keys: list[Any],
        codes: Ints,
        arrivals: Ints | None = None,
    ) -> Outputs:
        """Many at once, as columns: events of one type, with a table of payloads.

        `causes` has numbers that tell the places of causes apart, the first of which is the time;
        those of one cause are adjacent. The key of each output is `keys[code]`. If all causes are
        input events, `arrivals` has their numbers.
        """
        clocks, slacks = self.path.at_all(at)
        times = causes[0]
        clocks = np.where(clocks == NEVER, times, clocks)
        n = _numbered(causes)
        digests = self._digest_all(events, causes, cause_places, n, keys, codes)
        copies = self.copies.take_all(digests)
        early = np.maximum(times + slacks - clocks, 0)
        numbers = np.empty((COPY + 1, len(at)), np.int64)
        for row, column in enumerate((events.ts, times, at, clocks, slacks, early, copies)):
            numbers[row] = column
        origin = self._level, self._name

        def places() -> list[Place]:
            return made_at(events.ts, origin, spelled(cause_places), n)

        groups = None
        if self._grouped:
            found = {code: self._group_of(keys[code]) for code in set(codes.tolist())}
            groups = pick(found, codes.tolist())
        if arrivals is not None:
            return Outputs(
                digests, numbers, events, None, None, cause_types, groups, codes,
                np.stack((arrivals, n)), origin,
            )  # fmt: skip
        return Outputs(digests, numbers, events, places, cause_places, cause_types, groups, codes)

    def make_few(
        self,
        events: list[Event],
        causes: list[Place],
        cause_types: Sequence[str],
        at: list[int],
        keys: list[Any],
        codes: list[int],
        identities: Identities | None = None,
    ) -> Outputs:
        """The same as rows; perhaps somebody knows their identities."""
        before, n = causes[0], -1
        numbers: list[int] = []
        gone = False
        for event, cause in zip(events, causes, strict=True):
            n = n + 1 if cause == before else 0
            before = cause
            numbers.append(n)
            gone |= event.ts < cause[0] - self._retention
        if identities is None or gone:
            rows = zip(events, numbers, causes, codes, strict=True)
            bases = [self._digest(e, n, cause, keys[c]) for e, n, cause, c in rows]
            identities = words_of(bases), bases
        digests, bases = identities
        copies = self.copies.take_all(digests).tolist()
        level, name, grouped, path_at = self._level, self._name, self._grouped, self.path.at
        outputs = []
        # By position: this runs for every output, and keywords would take a third of the time.
        for event, cause, kind, seen, code, n, copy, base in zip(  # noqa: B905
            events, causes, cause_types, at, codes, numbers, copies, bases
        ):
            clock, slack = path_at(seen)
            if clock == NEVER:
                clock = cause[0]
            early = cause[0] + slack - clock
            outputs.append(Output(
                f"{base}-{copy}" if copy else base, event, (event.ts, level, (name, cause, n)),
                cause, kind, seen, clock, slack, early if 0 < early <= _MOST else 0,
                self._group_of(keys[code]) if grouped else None, code, copy,
            ))  # fmt: skip
        return Outputs.of(outputs, digests)

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
    ) -> Words:
        payload = events.arrays if isinstance(events, ArrayBatch) else events.payload
        old = events.ts < causes[0] - self._retention
        if isinstance(payload, pa.Table | dict) and not old.any():
            words = self._pieces_of(keys).take(codes, axis=1)
            try:
                return digest_all(self._digests, events.types[0], events.ts, words, payload)
            except (TypeError, OverflowError) as error:
                when = f"between {events.ts.min()} and {events.ts.max()}"
                raise self._not_data(events.types[0], when, error) from error
        # To spell places takes long, and only what tells old outputs apart needs more than times.
        places = spelled(cause_places) if old.any() else [*zip(causes[0].tolist(), strict=True)]
        rows = zip(events.rows(), n.tolist(), places, codes.tolist(), strict=True)
        return words_of([self._digest(event, n, at, keys[code]) for event, n, at, code in rows])

    def identify(
        self,
        type: str,
        names: tuple[str, ...],
        kinds: tuple[np.dtype[Any], ...],
        kept: tuple[Ints, int, int],
        numbers: Ints,
        fields: Ints,
        keys: list[Any],
        codes: Ints,
    ) -> tuple[Ints, Identities]:
        """The fields and identities of few outputs, which are whole numbers and floats.

        `kept` are the words of events, how many there are, and how far apart their numbers are; for
        the others, see `betimes.engine.news.digests.few`.
        """
        count, (template, order, floats) = len(codes), shape_of(self._digests, type, names, kinds)
        rows, text = np.empty((count, len(fields)), np.int64), np.empty(LENGTH * count, np.uint8)
        found = np.empty((2, count), np.uint64)
        identify(
            *kept, numbers, fields, floats, template, order, self._pieces_of(keys), codes, rows,
            found, text,
        )  # fmt: skip
        whole = text.tobytes().decode()
        spelled = [whole[at : at + LENGTH] for at in range(0, len(whole), LENGTH)]
        return rows, (found, spelled)

    def _pieces_of(self, keys: list[Any]) -> Words:
        """A piece for each key, in halves; keys are only ever added."""
        keys_known, pieces = self._keys
        if keys_known is not keys or pieces.shape[1] > len(keys):
            pieces = pieces[:, :0]
        if pieces.shape[1] < len(keys):
            pieces = np.concatenate((pieces, halves_of(keys[pieces.shape[1] :])), axis=1)
            self._keys = keys, pieces
        return pieces

    def resume(self, outputs: Outputs) -> None:
        """Resume with the outputs that are remembered."""
        taken: dict[str, int] = {}
        for base, copy in zip(outputs.bases, outputs.numbers[COPY].tolist(), strict=True):
            taken[base] = taken.get(base, 0) | 1 << copy
        self.copies = Copies(taken)

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
        if output.copy or self.copies.get(output.id) or not _alike(output.event, event):
            return False
        self.copies.set(output.id, 1)
        return True

    def unmake(self, outputs: Iterable[Output]) -> None:
        """Free the numbers of outputs that a replay may make again, or that are forgotten."""
        # Whether a list is an instance of an abstract class takes long to find out.
        if type(outputs) is Outputs and (not outputs.made_one_by_one or self.copies.tabled):
            if not outputs.copied:
                self.copies.free_all(outputs.digests)
                return
            numbers = outputs.numbers[COPY].tolist()
            for base, copy in zip(outputs.bases, numbers, strict=True):
                self.copies.free(base, copy)
            return
        for output in outputs:
            self.copies.free(output.base, output.copy)

    def keep(self, outputs: Iterable[Output], new: Iterable[Output]) -> None:
        """Outputs that were unmade stay after all; a new one that took its number gets another."""
        for output in outputs:
            base = output.base
            taken = self.copies.get(base)
            if taken >> output.copy & 1:
                thief = next(o for o in new if o.id == output.id and o is not output)
                thief.copy = taken.bit_length()
                thief.id = f"{base}-{thief.copy}"
                taken |= 1 << thief.copy
            self.copies.set(base, taken | 1 << output.copy)


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
    if (causes[0, 1:] != causes[0, :-1]).all():
        return np.zeros(count, np.int64)
    new = np.ones(count, np.bool_)
    new[1:] = (causes[:, 1:] != causes[:, :-1]).any(axis=0)
    at = np.arange(count)
    return at - np.maximum.accumulate(np.where(new, at, 0))
