"""Which rows of the input can be events, and why others cannot; types of events as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.errors import EventError
from betimes.model.times import Rejected

Codes = npt.NDArray[np.int32]

_FEW = 32
"""Names that are looked for one by one."""


def plain_text(names: pa.ChunkedArray[Any], column: str) -> pa.ChunkedArray[Any]:
    """The type column as text, whatever its encoding."""
    kind = names.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        if not _is_clean(names):
            names = names.cast(kind)
    if pa.types.is_null(kind):
        return names.cast(pa.string())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise EventError(
            f"expected the type column {column!r} to hold text, got {kind}; cast it to string first"
        )
    return names


def faults(names: list[Any], payloads: list[Any]) -> list[Rejected]:
    """The rows whose types or payloads cannot be used."""
    texts, dicts = set(map(type, names)) <= {str}, set(map(type, payloads)) <= {dict}
    if texts and dicts and all(map(_is_name, dict.fromkeys(names))):
        return []
    return [
        *(Rejected(row, name, "the type is not text")
          for row, name in enumerate(names) if not _is_name(name)),
        *(Rejected(row, payload, "the payload is not a dict")
          for row, payload in enumerate(payloads) if not isinstance(payload, dict)),
    ]  # fmt: skip


def _is_name(name: object) -> bool:
    """Whether it is text that can be written: half of a surrogate pair cannot."""
    if not isinstance(name, str) or not name:
        return False
    return name.isascii() or name.encode(errors="replace").decode() == name


def missing(column: pa.ChunkedArray[Any], reason: str) -> list[Rejected]:
    if column.null_count == 0:
        return []
    rows = np.flatnonzero(column.is_null().to_numpy()).tolist()
    return [Rejected(row, None, reason) for row in rows]


def one_a_row(rejected: list[Rejected]) -> list[Rejected]:
    """The first reason for each row, in row order."""
    first = {r.row: r for r in reversed(rejected)}
    return [first[row] for row in sorted(first)]


def _is_clean(names: pa.ChunkedArray[Any]) -> bool:
    """Whether the dictionaries of a column have neither nulls nor repeated values."""
    chunks: list[Any] = names.chunks
    dictionaries = [chunk.dictionary for chunk in chunks]
    return all(d.null_count == 0 and len(d.unique()) == len(d) for d in dictionaries)


def encode(names: pa.ChunkedArray[Any]) -> tuple[Codes, tuple[str, ...]]:
    """A number for each name, in order of first appearance."""
    if not pa.types.is_dictionary(names.type):
        encoded = in_one(names).dictionary_encode()
        return encoded.indices.to_numpy(), tuple(encoded.dictionary.to_pylist())
    whole = in_one(names.unify_dictionaries())
    codes = whole.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    order = _by_appearance(codes, len(whole.dictionary))
    if order != [*range(len(order))]:
        numbers = np.zeros(len(whole.dictionary), np.int32)
        numbers[order] = np.arange(len(order))
        codes = numbers[codes]
    return codes, tuple(whole.dictionary.take(pa.array(order, pa.int64())).to_pylist())


def _by_appearance(codes: Codes, count: int) -> list[int]:
    """The numbers below `count` that occur, in order of first appearance."""
    if count > _FEW or not len(codes):
        appeared: list[int] = np.asarray(pa.array(codes).unique()).tolist()
        return appeared
    # To compare a column with one number is so fast that doing it a few times beats hashing.
    first = [int((codes == code).argmax()) for code in range(count)]
    found = [code for code in range(count) if codes[first[code]] == code]
    return sorted(found, key=first.__getitem__)


def in_one(column: pa.ChunkedArray[Any]) -> Any:
    """The values of a column as a single array."""
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
