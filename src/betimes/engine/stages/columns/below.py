"""What a stage of columns knows of its events: payloads, and which came from other stages.

Outputs of other stages stay the columns that they came as. They are asked for by number, which is
an index; only what is taken back is looked up by its identity, and that among the events of its
time, or among those that wait.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from betimes.engine.news.digests.kernel import Words
from betimes.engine.news.outputs import Output, Outputs, Place
from betimes.engine.stages.columns.shelves import NOBODY, SHELVES
from betimes.engine.stages.columns.store import Store
from betimes.engine.stages.from_below import Made
from betimes.engine.stages.tactic import Ints
from betimes.model import stored
from betimes.model.batch import EventBatch
from betimes.model.volumes import VolumeReader, VolumeWriter

_MANY = 8192
"""After so many rows were handed out, those that were outputs are forgotten."""


class Waits:
    """Outputs of other stages that wait, by the unit's row number: which they are."""

    def __init__(self) -> None:
        self._rows: Ints = NOBODY
        self._words: Words = np.empty((2, 0), np.uint64)
        """Their identities."""
        self._new: list[tuple[Ints, Outputs]] = []
        self._handed: list[Ints] = []
        """Rows that were handed out since."""
        self._count = 0

    def put(self, rows: Ints, outputs: Outputs) -> None:
        """Outputs arrive at these rows."""
        self._new.append((rows, outputs))

    def hand_out(self, rows: Ints) -> None:
        """These rows are handed out."""
        if self._new or len(self._rows):
            self._handed.append(rows)
            self._count += len(rows)
            if self._count > _MANY:
                self._sort_out()

    def withdraw(self, output: Output) -> int | None:
        """An output was taken back: its row, if it waits."""
        self._sort_out()
        first, second = Outputs.of([output]).identities[:, 0]
        found = np.flatnonzero((self._words[0] == first) & (self._words[1] == second))
        if not len(found):
            return None
        row = int(self._rows[found[0]])
        self._rows = np.delete(self._rows, found)
        self._words = np.delete(self._words, found, axis=1)
        return row

    def _sort_out(self) -> None:
        """Keep only those that were not handed out."""
        if not (self._new or self._handed):
            return
        gone = np.concatenate([NOBODY, *self._handed])
        rows, words = [], []
        left = ~np.isin(self._rows, gone)
        rows.append(self._rows[left])
        words.append(self._words[:, left])
        for mine, outputs in self._new:
            still = np.flatnonzero(~np.isin(mine, gone))
            if len(still):
                rows.append(mine[still])
                words.append(outputs.pick(still).identities)
        self._rows, self._words = np.concatenate(rows), np.concatenate(words, axis=1)
        self._new, self._handed, self._count = [], [], 0

    def state_of(self) -> tuple[Ints, Words]:
        """Everything needed to resume elsewhere."""
        self._sort_out()
        order = self._rows.argsort()
        return self._rows.take(order), self._words.take(order, axis=1)

    def resume(self, kept: Any) -> None:
        """Resume from what `state_of` kept."""
        what = "what waits from other stages"
        rows, words = stored.shaped(kept, tuple[np.ndarray, np.ndarray], what)
        stored.array(rows, np.int64, (None,), what)
        self._rows = stored.increasing(rows, what)
        self._words = stored.array(words, np.uint64, (2, len(rows)), what)


class _Part:
    """Outputs of other stages with numbers, which increase."""

    __slots__ = ("_spelled", "numbers", "outputs")

    def __init__(self, numbers: Ints, outputs: Outputs | list[Made]) -> None:
        self.numbers = numbers
        self.outputs = outputs
        """As they came, or from a checkpoint."""
        self._spelled: dict[int, Place] | None = None

    def place_of(self, number: int) -> Place | None:
        if self._spelled is not None or isinstance(self.outputs, list):
            return self.spelled().get(number)
        row = self.row_of(number)
        return None if row is None else self.outputs.place(row)

    def id_of(self, number: int) -> str | None:
        row = self.row_of(number)
        if row is None:
            return None
        outputs = self.outputs
        return outputs[row][0] if isinstance(outputs, list) else outputs.ids_of(np.array([row]))[0]

    def row_of(self, number: int) -> int | None:
        row = int(self.numbers.searchsorted(number))
        return row if row < len(self.numbers) and self.numbers.item(row) == number else None

    def spelled(self) -> dict[int, Place]:
        """The places of all; who asks for many asks again when it goes back."""
        if self._spelled is None:
            made = self.outputs
            places = [place for _, place in made] if isinstance(made, list) else made.places
            self._spelled = dict(zip(self.numbers.tolist(), places, strict=True))
        return self._spelled

    def made(self, rows: range) -> list[Made]:
        """Identities and places."""
        if isinstance(self.outputs, list):
            return self.outputs[rows.start : rows.stop]
        some = self.outputs.pick(np.arange(rows.start, rows.stop))
        return [*zip(some.ids, some.places, strict=True)]


class Derived:
    """Which events other stages made, by number."""

    def __init__(self, parts: list[_Part], firsts: list[int]) -> None:
        self._parts = parts
        self._firsts = firsts
        """The first number of each part."""

    def add(self, part: _Part) -> None:
        """Note what has come."""
        self._parts.append(part)
        self._firsts.append(int(part.numbers[0]))

    def place_of(self, number: int) -> Place | None:
        """The place of an event, if another stage made it."""
        at = bisect_right(self._firsts, number) - 1
        return None if at < 0 else self._parts[at].place_of(number)

    def places_of(self, numbers: list[int]) -> list[Place | None]:
        """The same for many."""
        firsts, parts = self._firsts, [{}, *(part.spelled() for part in self._parts)]
        return [parts[bisect_right(firsts, number)].get(number) for number in numbers]

    def id_of(self, number: int) -> str | None:
        """Its identity, if another stage made it."""
        at = bisect_right(self._firsts, number) - 1
        return None if at < 0 else self._parts[at].id_of(number)

    def among(self, numbers: Ints) -> Derived:
        """What is known of these events, whatever is forgotten later."""
        since = max(bisect_right(self._firsts, int(numbers.min())) - 1, 0)
        until = bisect_right(self._firsts, int(numbers.max()))
        return Derived(self._parts[since:until], self._firsts[since:until])

    def between(self, low: int, high: int) -> Iterator[tuple[int, Made]]:
        """Numbers from one to another, with identities and places."""
        since = max(bisect_right(self._firsts, low) - 1, 0)
        for part in self._parts[since : bisect_left(self._firsts, high)]:
            rows = range(*part.numbers.searchsorted((low, high)).tolist())
            yield from zip(
                part.numbers[rows.start : rows.stop].tolist(), part.made(rows), strict=True
            )

    def forget(self, before: int) -> None:
        """Forget the parts that end before a number."""
        count = 0
        while count < len(self._parts) and self._parts[count].numbers[-1] < before:
            count += 1
        del self._parts[:count], self._firsts[:count]


class Known(Store):
    """Events by number, and which of them other stages made."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = False
        """Whether there may be outputs of other stages among the events."""
        self.derived = Derived([], [])

    def hear(self, outputs: Outputs, numbers: Ints, which: Ints) -> None:
        """Outputs of other stages arrive; some of them concern the pattern and have numbers."""
        self.mixed = True
        if len(numbers):
            self.derived.add(_Part(numbers, outputs.pick(which)))

    def forget(self, before: int, bound: Ints) -> None:
        super().forget(before, bound)
        self.derived.forget(before)

    def state_of(self, volumes: VolumeWriter, what: str) -> dict[str, Any]:
        return super().state_of(volumes, what) | {"mixed": self.mixed}

    def _cut(self) -> Callable[[int, int], Any]:
        cut = super()._cut()

        def with_made(low: int, high: int) -> Any:
            return cut(low, high), dict(self.derived.between(low * SHELVES, high * SHELVES))

        return with_made

    def resume(self, kept: dict[str, Any], volumes: VolumeReader, what: str) -> None:
        super().resume(kept, volumes, what)
        self.mixed = kept["mixed"]

    def _read(self, chunks: Any) -> Iterator[tuple[int, Ints, EventBatch]]:
        events, made = chunks
        found = stored.shaped(made, dict[stored.Int, tuple[str, stored.Place]], "kept events")
        if found:
            numbers = np.array(sorted(found), np.int64)
            self.derived.add(_Part(numbers, [found[number] for number in numbers.tolist()]))
        return super()._read(events)
