"""Payloads for readers: as JSON text, or as a struct with a column for each field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from betimes.model.arrays import Arrays
from betimes.model.batch import Payload
from betimes.model.sifting import in_one
from betimes.model.spelling import text_of


def plain(value: Any) -> Any:
    """A value that JSON does not know, as one that it knows."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


_ENCODER = msgspec.json.Encoder(enc_hook=plain)
_FEW = 16
"""Fewer rows than this are written one by one: columns have a price of their own."""
_MANY = 1000
"""The same for columns that are arrays of numbers, some of them floats."""


def struct_of(payload: Payload | None) -> pa.Array[Any] | None:
    """Payloads as a struct of columns; None if they do not have the same fields."""
    if isinstance(payload, pa.Table):
        if not payload.num_columns:
            return None
        columns = [in_one(column.unify_dictionaries()) for column in payload.columns]
        return pa.StructArray.from_arrays(columns, names=payload.column_names)
    if not payload or not payload[0]:
        return None
    names = payload[0].keys()
    if not all(isinstance(name, str) for name in names):
        return None
    if any(row.keys() != names for row in payload[1:]):
        return None
    try:
        return pa.StructArray.from_arrays(
            [pa.array([row[name] for row in payload]) for name in names], names=list(names)
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can spell it, Arrow cannot
        return None


def json_of(payload: Payload | Arrays | None, count: int) -> pa.Array[Any]:
    """Payloads as JSON text; `count` is how many there are if there is none."""
    if payload is None:
        return pa.array(["{}"] * count, pa.string())
    if isinstance(payload, dict):
        if all(_is_short(array.dtype) for array in payload.values()):
            return _numbers(payload, count)
        if count < _MANY:
            return pa.array(_spelled(payload), pa.string())
        payload = pa.table({name: pa.array(array) for name, array in payload.items()})
    if isinstance(payload, pa.Table):
        if len(payload) >= _FEW and payload.num_columns:
            return _objects(payload)
        payload = payload.to_pylist()
    return pa.array(_lines(payload), pa.string())


def comparable(column: Any) -> Any:
    """A column that can be sorted: nested values, which have no order of their own, as JSON text.

    >>> comparable(pa.chunked_array([[{"a": 2}, None]])).to_pylist()
    ['{"a":2}', None]
    """
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if not pa.types.is_nested(column.type):
        return column
    values = column.to_pylist()
    texts = zip(values, _lines(values), strict=True)
    return pa.array([None if value is None else text for value, text in texts], pa.string())


def _lines(values: Sequence[Any]) -> list[str]:
    try:
        return _ENCODER.encode_lines(values).decode().split("\n")[:-1]
    except UnicodeEncodeError:
        return [json.dumps(value, default=plain) for value in values]


def _is_short(kind: np.dtype[Any]) -> bool:
    """Whether numbers are integers of at most 64 bits with their sign."""
    return kind.kind == "i" or (kind.kind == "u" and kind.itemsize < 8)


def _numbers(arrays: Arrays, count: int) -> pa.Array[Any]:
    """A JSON object for each row of columns of integers."""
    numbers = np.empty((len(arrays), count), np.int64)
    for row, array in enumerate(arrays.values()):
        numbers[row] = array
    head, tails = _between((*arrays,))
    return text_of(np.zeros(count, np.int64), head, numbers, tails)


@lru_cache(maxsize=256)
def _between(names: tuple[str, ...]) -> tuple[tuple[str], tuple[str, ...]]:
    """What comes before the first value of a JSON object, and what comes after each."""
    spelled = [f"{_ENCODER.encode(name).decode()}:" for name in names]
    return ("{" + spelled[0],), (*(f",{name}" for name in spelled[1:]), "}")


def _spelled(arrays: Arrays) -> list[str]:
    """A JSON object for each row of columns of numbers."""
    names = [_ENCODER.encode(name).decode().replace("%", "%%") for name in arrays]
    line = "{" + ",".join([f"{name}:%s" for name in names]) + "}"
    columns: list[list[Any]] = [
        _lines(array.tolist()) if array.dtype.kind == "f" else array.tolist()
        for array in arrays.values()
    ]
    return [line % row for row in zip(*columns, strict=True)]


def _objects(table: pa.Table) -> pa.Array[Any]:
    """A JSON object for each row, without a Python object for any."""
    import pyarrow.compute as pc  # slow to load

    pieces: list[Any] = []
    for number, name in enumerate(table.column_names):
        pieces.append(("," if number else "{") + _ENCODER.encode(name).decode() + ":")
        pieces.append(_values(in_one(table[name].unify_dictionaries())))
    joined: pa.Array[Any] = pc.binary_join_element_wise(*pieces, "}", "")
    return joined


def _values(column: Any) -> Any:
    """The values of a column as JSON."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        text = column.cast(pa.string())
        return text.fill_null("null") if column.null_count else text
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.dictionary_encode()
    elif not pa.types.is_dictionary(kind):
        return pa.array(_lines(column.to_pylist()), pa.string())
    known = pa.array([*_lines(column.dictionary.to_pylist()), "null"], pa.string())
    codes = column.indices.cast(pa.int64())  # one more than the dictionary may not fit in 8 bits
    return known.take(codes.fill_null(len(known) - 1) if codes.null_count else codes)
