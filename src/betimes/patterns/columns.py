"""Conditions over columns: which events of a batch meet them, all at once.

Arrow's compute functions use the same three-valued logic as the expression language. Where they
differ, or where an error must name the event, conditions are evaluated row by row, which is slower
and right by definition.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from betimes.model.batch import EventBatch
from betimes.patterns.conditions import AllOf, AnyOf, Expression, TypeIs
from betimes.patterns.steps import Condition
from betimes.patterns.syntax import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Negative,
    Not,
    Or,
)

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

_COMPARE: dict[str, Any] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ARITHMETIC: dict[str, Any] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_CALLS: dict[str, Any] = {
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "contains": pc.match_substring,
}
_EXACT = 2**53
"""Integers up to this size are exact as floats, so they can be compared with floats."""


class _DiffersError(Exception):
    """Arrow would give a different answer here."""


def fulfil(condition: Condition | None, batch: EventBatch, rows: Rows) -> Flags:
    """Which of these rows meet a condition that reads only the event itself."""
    found = np.ones(len(rows), np.bool_)
    match condition:
        case None:
            pass
        case TypeIs(type):
            code = batch.types.index(type) if type in batch.types else -1
            found = batch.codes[rows] == code
        case AllOf(conditions):
            for each in conditions:
                left = np.flatnonzero(found)
                found[left] = fulfil(each, batch, rows[left])
        case AnyOf(conditions):
            found = np.zeros(len(rows), np.bool_)
            for each in conditions:
                left = np.flatnonzero(~found)
                found[left] = fulfil(each, batch, rows[left])
        case Expression(expr) if isinstance(batch.payload, pa.Table) and len(rows):
            try:
                found = _truth(expr, batch, rows)
            except (_DiffersError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
                found = _one_by_one(condition, batch, rows)
        case _:
            found = _one_by_one(condition, batch, rows)
    return found


def numbers(expr: Expr, batch: EventBatch) -> Any:
    """The values of an expression for a whole batch, as an Arrow array of numbers.

    None if the expression is not about numbers, or has to be evaluated row by row.
    """
    if not isinstance(batch.payload, pa.Table) or not len(batch):
        return None
    try:
        value = _Columns(batch, None).value(expr)
    except (_DiffersError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    if isinstance(value, pa.Scalar):
        return None
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    plain = pa.types.is_integer(value.type) or pa.types.is_floating(value.type)
    return value if plain else None


def _one_by_one(condition: Condition, batch: EventBatch, rows: Rows) -> Flags:
    holds = condition.holds
    return np.fromiter((holds(event, {}) for event in batch.take(rows).rows()), np.bool_, len(rows))


def _truth(expr: Expr, batch: EventBatch, rows: Rows) -> Flags:
    columns = _Columns(batch, rows)
    value = columns.value(expr)
    if value.type != pa.bool_():
        raise _DiffersError
    if isinstance(value, pa.Scalar):
        return np.full(len(rows), value.as_py() is True)
    flags: Flags = pc.fill_null(value, False).to_numpy(zero_copy_only=False)
    return flags


class _Columns:
    """Some rows of a batch, or all, and the values of expressions there."""

    def __init__(self, batch: EventBatch, rows: Rows | None) -> None:
        self._batch = batch
        self._rows: Rows | slice = slice(None) if rows is None else rows
        self._known: dict[str, Any] = {}

    def value(self, expr: Expr) -> Any:
        match expr:
            case Literal(None):
                raise _DiffersError
            case Literal(value):
                constant: Any = value
                return pa.scalar(constant)
            case Column(name):
                if name not in self._known:
                    self._known[name] = self._column(name)
                return self._known[name]
            case Compare(op, left, right):
                return _COMPARE[op](*self._alike(left, right))
            case Arithmetic(("+" | "-" | "*") as op, left, right):
                return _ARITHMETIC[op](*self._alike(left, right, text=False))
            case Negative(operand):
                return pc.negate_checked(_number(self.value(operand)))
            case In(item, options):
                tests = [_COMPARE["=="](*self._alike(item, option)) for option in options]
                return reduce(pc.or_kleene, tests)
            case IsNull(operand):
                return pc.is_null(self.value(operand))
            case Not(operand):
                return pc.invert(self._test(operand))
            case And(parts):
                return reduce(pc.and_kleene, map(self._test, parts))
            case Or(parts):
                return reduce(pc.or_kleene, map(self._test, parts))
            case Call(function, (text, Literal(str(part)))) if function in _CALLS:
                value = self.value(text)
                if not _is_text(value):
                    raise _DiffersError
                return _CALLS[function](value, part)
            case _:
                raise _DiffersError

    def _test(self, expr: Expr) -> Any:
        value = self.value(expr)
        if value.type != pa.bool_():
            raise _DiffersError
        return value

    def _alike(self, left: Expr, right: Expr, *, text: bool = True) -> tuple[Any, Any]:
        """Two sides in a form that Arrow compares correctly: both text, or both numbers."""
        one, other = self.value(left), self.value(right)
        if text and _is_text(one) and _is_text(other):
            return one, other
        one, other = _number(one), _number(other)
        if pa.types.is_floating(one.type) != pa.types.is_floating(other.type):
            for side in (one, other):
                if pa.types.is_integer(side.type) and not _is_exact(side):
                    raise _DiffersError
        return one, other

    def _column(self, name: str) -> Any:
        batch, rows = self._batch, self._rows
        if name == "ts":
            return pa.array(batch.ts[rows])
        if name == "type":
            names = pa.DictionaryArray.from_arrays(
                batch.codes[rows], pa.array(batch.types, pa.string())
            )
            return names.cast(pa.string())
        assert isinstance(batch.payload, pa.Table)
        if name not in batch.payload.column_names:
            raise _DiffersError  # row by row, the error names the event, if one is tested at all
        column = batch.payload[name]
        if not isinstance(rows, slice):
            column = column.take(rows)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            # Row by row, Python calculates with 64 bits.
            column = column.cast(pa.float64())
            column = pc.if_else(pc.is_nan(column), None, column)
        return column


def _is_text(value: Any) -> bool:
    return pa.types.is_string(value.type) or pa.types.is_large_string(value.type)


def _number(value: Any) -> Any:
    if pa.types.is_boolean(value.type):
        return value.cast(pa.int64())
    if pa.types.is_integer(value.type) or pa.types.is_floating(value.type):
        return value
    raise _DiffersError


def _is_exact(value: Any) -> bool:
    if isinstance(value, pa.Scalar):
        return bool(abs(value.as_py()) < _EXACT)
    ends = pc.min_max(value)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return bool(low is None or (low > -_EXACT and high < _EXACT))
