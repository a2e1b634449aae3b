"""Which numbers equal outputs have taken.

Outputs with the same content have the same digest, and a number tells them apart. Almost every
digest is alone, and has the number 0. A detector that makes rows keeps a dictionary of its digests.
Once it has made columns, digests that are alone are in a compiled table, as numbers, and only the
others are in the dictionary.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.engine.news.digests.columns import spelled, words_of
from betimes.engine.news.digests.kernel import Words
from betimes.engine.news.digests.table import add_all, remove_all

Ints = npt.NDArray[np.int64]

_ROOM = 1024


class Copies:
    """The numbers that are taken, as bits, by digest."""

    def __init__(self, taken: dict[str, int] | None = None) -> None:
        self._bits = {} if taken is None else taken
        self._table: Words | None = None
        """Digests that have only the number 0."""
        self._size = 0
        """How many are in the table."""

    @property
    def tabled(self) -> bool:
        """Whether digests are in the table."""
        return self._table is not None

    def get(self, base: str) -> int:
        """The numbers that equal outputs have taken."""
        bits = self._bits.get(base, 0)
        return 1 if not bits and self._table is not None and self._in_table(base) else bits

    def set(self, base: str, bits: int) -> None:
        """Note the numbers that are taken now."""
        if self._table is not None:
            if bits == 1:
                self._bits.pop(base, None)
                self._add(words_of([base]))
                return
            self._remove(words_of([base]))
        if bits:
            self._bits[base] = bits
        else:
            self._bits.pop(base, None)

    def take(self, base: str) -> int:
        """The first number that is free; it is taken now."""
        if base not in self._bits:
            if self._table is None:
                self._bits[base] = 1
                return 0
            if not len(self._add(words_of([base]))):
                return 0
        bits = self.get(base)
        copy = (~bits & (bits + 1)).bit_length() - 1
        self.set(base, bits | 1 << copy)
        return copy

    def take_all(self, words: Words) -> Ints:
        """The same for many."""
        if self._table is None:
            self._table = np.zeros((2, _ROOM), np.uint64)
            alone = [base for base, bits in self._bits.items() if bits == 1]
            self._add(words_of(alone))
            for base in alone:
                del self._bits[base]
        copies = np.zeros(words.shape[1], np.int64)
        again = self._add(words) if not self._bits else self._add_others(words)
        if len(again):
            bases = spelled(words[:, again])
            for row, base in zip(again.tolist(), bases, strict=True):
                copies[row] = self.take(base)
        return copies

    def _add_others(self, words: Words) -> Ints:
        """Add digests to the table unless the dictionary may have them; which are left."""
        maybe = np.isin(words[0], words_of([*self._bits])[0])
        others = np.flatnonzero(~maybe)
        again = others[self._add(words[:, others])]
        return np.sort(np.concatenate((np.flatnonzero(maybe), again)))

    def free(self, base: str, copy: int) -> None:
        """A number is free again."""
        self.set(base, self.get(base) & ~(1 << copy))

    def free_all(self, words: Words) -> None:
        """The number 0 of each of these is free again."""
        missing = np.arange(words.shape[1]) if self._table is None else self._remove(words)
        if len(missing):
            for base in spelled(words[:, missing]):
                self.free(base, 0)

    def state_of(self) -> dict[str, int]:
        """Everything, as data."""
        if self._table is None:
            return self._bits
        alone = self._table[:, (self._table != 0).any(axis=0)]
        return self._bits | dict.fromkeys(spelled(alone), 1)

    # The table

    def _in_table(self, base: str) -> bool:
        words = words_of([base])
        assert self._table is not None
        again = self._add(words)
        if not len(again):
            self._remove(words)
        return bool(len(again))

    def _add(self, words: Words) -> Ints:
        """Add digests to the table; which were there before."""
        count = words.shape[1]
        table = self._table
        assert table is not None
        again = np.empty(count, np.int64)
        if 2 * (self._size + count) > table.shape[1]:
            room = 1 << (4 * (self._size + count)).bit_length()
            larger = np.zeros((2, room), np.uint64)
            kept = table[:, (table != 0).any(axis=0)]
            add_all(larger, kept, np.empty(kept.shape[1], np.int64))
            self._table = table = larger
        known = add_all(table, words, again)
        self._size += count - known
        return again[:known]

    def _remove(self, words: Words) -> Ints:
        """Remove digests from the table; which were not there."""
        assert self._table is not None
        missing = np.empty(words.shape[1], np.int64)
        unknown = remove_all(self._table, words, missing)
        self._size -= words.shape[1] - unknown
        return missing[:unknown]
