"""Pieces of columns, and the digests of many outputs at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news.digests.few import LENGTH
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
from betimes.model.spelling import of_bytes

Ints = npt.NDArray[np.int64]


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


class Shape(NamedTuple):
    """What the digests of outputs of one type share whose fields are numbers."""

    template: Words
    order: Ints
    """The order of the fields in a digest."""
    floats: npt.NDArray[np.bool_]


@lru_cache(maxsize=256)
def shape_of(
    digests: Digests, type: str, names: tuple[str, ...], kinds: tuple[np.dtype[Any], ...]
) -> Shape:
    """The shape of outputs that have fields of these kinds."""
    head, ordered = digests.head(type, names)
    words = np.zeros(6 + 2 * len(names), np.uint64)
    words[:2] = np.frombuffer(head, np.uint64)
    order = np.array([names.index(name) for name in ordered])
    floats = np.array([kind.kind == "f" for kind in kinds])
    words[6::2] = np.where(floats[order], FLOAT, INT)
    return Shape(words, order, floats)


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
    return [text[at : at + LENGTH] for at in range(0, len(text), LENGTH)]


def text_column(words: Words) -> pa.Array[Any]:
    """The same as a column, without an object for any."""
    text, count = _hexadecimal(words), words.shape[1]
    ends = np.arange(0, LENGTH * (count + 1), LENGTH, dtype=np.int32)
    return of_bytes(ends, text.encode())


def words_of(bases: list[str]) -> Words:
    """Digests in hexadecimal as numbers."""
    found = np.zeros((len(bases), 16), np.uint8)
    found[:, :12] = np.frombuffer(bytes.fromhex("".join(bases)), np.uint8).reshape(-1, 12)
    return np.ascontiguousarray(found.view(np.uint64).T)


def _hexadecimal(words: Words) -> str:
    """The 12 bytes of each digest, one after the other."""
    whole = np.ascontiguousarray(words.T).view(np.uint8).reshape(-1, 16)
    return whole[:, :12].tobytes().hex()
