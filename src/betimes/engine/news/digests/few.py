"""The fields and identities of few outputs, in one compiled call.

For few outputs, the number of calls counts, not what each of them does. The fields of these are
numbers that somebody keeps as 64-bit words, one column of an array for each event.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.engine.news.digests.kernel import Words, digest
from betimes.model.compiling import compiled

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

# Fields of every output: its time, and the type of the event that completed it; its own follow.
TS, TYPE, FIELDS = range(3)
LENGTH = 24
"""Characters of a digest in hexadecimal."""
_KEY, _TIME, _FIRST = 2, 5, 7
"""Where the words of a digest are that differ: the key (two), the time, and every other one."""
_EXPONENT, _NAN = 0x7FF0000000000000, 0x7FF8000000000000
_SIGN = 0x7FFFFFFFFFFFFFFF


@compiled
def _column_of(kept: Ints, size: int, apart: int, number: int) -> int:
    """Where the event with a number is; numbers are in the first row, and increase."""
    first = kept[0, 0]
    if kept[0, size - 1] - first == (size - 1) * apart:
        # As long as nothing between them was forgotten, their distances are all the same.
        return int((number - first) // apart)
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) // 2
        if kept[0, middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def identify(
    kept: Ints, size: int, apart: int, numbers: Ints, fields: Ints, floats: Flags,
    template: Words, order: Ints, keys: Words, codes: Ints, rows: Ints, found: Words, text: Bytes,
) -> None:  # fmt: skip
    """Pick the fields of each output, and make its digest.

    `kept` are words of events; `numbers` has the events of each output, a row for each step.
    `fields` says where the fields are: the row of the word, times the number of steps, plus the
    step; `rows` receives them. `template` has the words that all outputs share, `order` the order
    of their own fields, and `floats` says which of these are no whole numbers. The key of an output
    is `codes[n]`, and `keys` has a piece for each. `found` receives digests, `text` spells them.
    """
    steps, count = numbers.shape
    words = np.empty((len(template), count), np.uint64)
    for n in range(count):
        for field in range(len(fields)):
            at = _column_of(kept, size, apart, numbers[fields[field] % steps, n])
            rows[n, field] = kept[fields[field] // steps, at]
        for at in range(len(template)):
            words[at, n] = template[at]
        words[_KEY, n], words[_KEY + 1, n] = keys[0, codes[n]], keys[1, codes[n]]
        words[_TIME, n] = np.uint64(rows[n, TS])
        for at in range(len(order)):
            value = rows[n, FIELDS + order[at]]
            if floats[order[at]] and value & _SIGN > _EXPONENT:
                value = _NAN
            words[_FIRST + 2 * at, n] = np.uint64(value)
    digest(words, found)
    for n in range(count):
        for at in range(LENGTH):
            word = found[0 if at < 16 else 1, n]
            shift = 8 * (at // 2 % 8) + (4 if at % 2 == 0 else 0)
            nibble = np.int64((word >> np.uint64(shift)) & np.uint64(15))
            text[n * LENGTH + at] = nibble + (48 if nibble < 10 else 87)
