"""Pieces of columns, and the digests of many outputs at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news.digests.kernel import Words, digest
from betimes.engine.news.digests.pieces import (
    FALSE,
    FLOAT,
    INT,
    NAN,
    NONE,
    TRUE,
    Digests,
    piece_of,
)
from betimes.model.arrays import Arrays
from betimes.model.sifting import in_one

Ints = npt.NDArray[np.int64]

_LENGTH = 24
"""Characters of a digest in hexadecimal."""


def digest_all(
    digests: Digests, type: str, ts: Ints, keys: Words, payload: pa.Table | Arrays
) -> Words:
    """The digests of outputs of one type; `keys` has the piece for the key of each, in halves."""
    fields = payload if isinstance(payload, dict) else payload.column_names
    head, names = digests.head(type, fields)
    words = np.empty((6 + 2 * len(names), len(ts)), np.uint64)
    words[:2] = np.frombuffer(head, np.uint64)[:, np.newaxis]
    words[2:4], words[4], words[5] = keys, 0, ts.view(np.uint64)
    fill: Any = _fill_numbers if isinstance(payload, dict) else _fill
    for row, name in enumerate(names):
        fill(words[6 + 2 * row : 8 + 2 * row], payload[name])
    found = np.empty((2, len(ts)), np.uint64)
    digest(words, found)
    return found


def digest_words(
    digests: Digests,
    type: str,
    names: tuple[str, ...],
    kinds: list[np.dtype[Any]],
    ts: Ints,
    keys: Words,
    values: Ints,
) -> Words:
    """The same for fields that are numbers, of these kinds; `values` has a row of words for each.

    For few outputs, the number of calls counts, so they go through all fields at once.
    """
    words, order = _template(digests, type, names, tuple(kinds))
    words = words.repeat(len(ts), axis=1)
    words[2:4], words[5] = keys, ts.view(np.uint64)
    words[7::2] = values.view(np.uint64).take(order, axis=0)
    for row, field in enumerate(order.tolist()):
        if kinds[field].kind == "f":
            halves = words[7 + 2 * row]
            halves[np.isnan(halves.view(np.float64))] = NAN
        elif kinds[field] == np.uint64:
            words[6 + 2 * row : 8 + 2 * row] = halves_of(values[field].view(np.uint64).tolist())
    found = np.empty((2, len(ts)), np.uint64)
    digest(words, found)
    return found


@lru_cache(maxsize=256)
def _template(
    digests: Digests, type: str, names: tuple[str, ...], kinds: tuple[np.dtype[Any], ...]
) -> tuple[Words, Ints]:
    """What all outputs with these fields share, and the order of the fields."""
    head, ordered = digests.head(type, names)
    words = np.zeros((6 + 2 * len(names), 1), np.uint64)
    words[:2, 0] = np.frombuffer(head, np.uint64)
    order = np.array([names.index(name) for name in ordered])
    words[6::2, 0] = [FLOAT if kinds[field].kind == "f" else INT for field in order.tolist()]
    return words, order


def halves_of(values: list[Any]) -> Words:
    """The first and the second half of a piece for each value."""
    pieces = b"".join([piece_of(value) for value in values])
    return np.frombuffer(pieces, np.uint64).reshape(-1, 2).T


def _fill_numbers(halves: Words, array: npt.NDArray[Any]) -> None:
    """The pieces of an array of numbers."""
    kind = array.dtype.kind
    if kind == "f":
        values = array.astype(np.float64)
        halves[0], halves[1] = FLOAT, np.where(np.isnan(values), NAN, values.view(np.uint64))
    elif kind == "u" and array.itemsize == 8:
        halves[:] = halves_of(array.tolist())
    else:
        halves[0], halves[1] = INT, array.astype(np.int64, copy=False).view(np.uint64)


def _fill(halves: Words, column: pa.ChunkedArray[Any]) -> None:
    """The pieces of a column; values that are not numbers or text are taken one by one."""
    kind = column.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        numbers: Any = column.fill_null(pa.scalar(0, kind)) if column.null_count else column
        _fill_numbers(halves, numbers.to_numpy())
        if column.null_count:
            halves[0][column.is_null().to_numpy()] = NONE
        return
    if not column.null_count:
        if pa.types.is_floating(kind):
            _fill_numbers(halves, column.to_numpy())
            return
        if pa.types.is_boolean(kind):
            halves[0], halves[1] = np.where(column.to_numpy(), TRUE, FALSE), 0
            return
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        whole = in_one(column.unify_dictionaries())
        coded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
        known = halves_of([*coded.dictionary.to_pylist(), None])
        codes = coded.indices.cast(pa.int64())  # one more than the dictionary may not fit in 8 bits
        if codes.null_count:
            codes = codes.fill_null(known.shape[1] - 1)
        halves[:] = known.take(codes.to_numpy(), axis=1)
        return
    if pa.types.is_null(kind):
        halves[0], halves[1] = NONE, 0
        return
    halves[:] = halves_of(column.to_pylist())


def spelled(words: Words) -> list[str]:
    """Digests in hexadecimal."""
    text = _hexadecimal(words)
    return [text[at : at + _LENGTH] for at in range(0, len(text), _LENGTH)]


def text_column(words: Words) -> pa.Array[Any]:
    """The same as a column, without an object for any."""
    text, count = _hexadecimal(words), words.shape[1]
    ends = np.arange(0, _LENGTH * (count + 1), _LENGTH, dtype=np.int32)
    column: pa.Array[Any] = pa.StringArray.from_buffers(
        count, pa.py_buffer(ends.tobytes()), pa.py_buffer(text.encode())
    )
    return column


def words_of(bases: list[str]) -> Words:
    """Digests in hexadecimal as numbers."""
    found = np.zeros((len(bases), 16), np.uint8)
    found[:, :12] = np.frombuffer(bytes.fromhex("".join(bases)), np.uint8).reshape(-1, 12)
    return np.ascontiguousarray(found.view(np.uint64).T)


def _hexadecimal(words: Words) -> str:
    """The 12 bytes of each digest, one after the other."""
    whole = np.ascontiguousarray(words.T).view(np.uint8).reshape(-1, 16)
    return whole[:, :12].tobytes().hex()
