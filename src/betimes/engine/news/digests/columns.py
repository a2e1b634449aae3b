"""Words of columns, and the digests of many outputs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news.digests.kernel import Words, digest
from betimes.engine.news.digests.words import (
    FALSE,
    FLOAT,
    INT,
    NAN,
    NONE,
    TRUE,
    WORD,
    Digests,
    fields_of,
    words_of,
)
from betimes.model.batch import in_one

Ints = npt.NDArray[np.int64]


def digest_all(digests: Digests, type: str, ts: Ints, keys: Words, payload: pa.Table) -> list[str]:
    """The digests of outputs of one type; `keys` has two words for the key of each."""
    fields = fields_of(payload.column_names)
    words = np.empty((3 + 2 * len(fields), len(ts)), np.uint64)
    words[:2], words[2] = keys, ts.view(np.uint64)
    for row, (name, number) in enumerate(fields):
        pair = words[3 + 2 * row : 5 + 2 * row]
        _fill(pair, payload[name])
        pair[0] ^= np.uint64(number)
    found = np.empty((2, len(ts)), np.uint64)
    head = digests.head(type)
    found[0], found[1] = np.uint64(head >> 64), np.uint64(head & WORD)
    digest(words, found)
    return _spelled(found)


def pairs_of(values: list[Any]) -> Words:
    """Two words for each value."""
    return np.array([words_of(value) for value in values], np.uint64).reshape(-1, 2).T


def _fill(pair: Words, column: pa.ChunkedArray[Any]) -> None:
    """The words of a column; values that are not numbers or text are taken one by one."""
    kind = column.type
    if not column.null_count:
        if pa.types.is_integer(kind) and kind != pa.uint64():
            pair[0] = INT
            pair[1] = column.to_numpy().astype(np.int64, copy=False).view(np.uint64)
            return
        if pa.types.is_floating(kind):
            values = column.to_numpy().astype(np.float64)
            pair[0], pair[1] = FLOAT, np.where(np.isnan(values), NAN, values.view(np.uint64))
            return
        if pa.types.is_boolean(kind):
            pair[0], pair[1] = np.where(column.to_numpy(), TRUE, FALSE), 0
            return
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        whole = in_one(column.unify_dictionaries())
        coded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
        known = pairs_of([*coded.dictionary.to_pylist(), None])
        codes = coded.indices
        if codes.null_count:
            codes = codes.fill_null(known.shape[1] - 1)
        pair[:] = known[:, codes.to_numpy(zero_copy_only=False)]
        return
    if pa.types.is_null(kind):
        pair[0], pair[1] = NONE, 0
        return
    pair[:] = pairs_of(column.to_pylist())


def _spelled(found: Words) -> list[str]:
    """The upper 96 bits in hexadecimal."""
    parts = np.empty((found.shape[1], 3), ">u4")
    low = np.uint64(0xFFFFFFFF)
    parts[:, 0], parts[:, 1] = found[0] >> np.uint64(32), found[0] & low
    parts[:, 2] = found[1] >> np.uint64(32)
    text = parts.tobytes().hex()
    return [text[at : at + 24] for at in range(0, len(text), 24)]
