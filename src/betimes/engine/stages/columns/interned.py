"""Columns that the steps of compiled patterns compare with each other, as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.reading.keys import Keys
from betimes.model.arrays import ArrayBatch
from betimes.model.batch import EventBatch
from betimes.model.stored import shaped
from betimes.patterns import PatternError
from betimes.patterns.compiled import Program

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_EXACT = 2**53
"""Whole numbers up to here are exact as floats."""


class Interned:
    """Columns that steps compare with each other, as numbers.

    Columns that are only tested for equality may hold text or numbers of any size: each distinct
    value gets a number. The others must be numbers that a float can represent exactly.
    """

    def __init__(self, program: Program, who: str) -> None:
        self._program = program
        self._who = who
        self._values = Keys()
        self._kinds: dict[str, str] = {}
        """Whether a column holds text or numbers."""
        self._seen: dict[str, str] = {}
        """The same, including what was read last."""

    def read(self, batch: EventBatch, bits: Ints) -> Floats:
        """One row per column, with NaN for null; `bits` says which steps each event fits."""
        if not self._program.columns:
            return np.empty((0, len(batch)))
        before = self._seen.copy()
        try:
            return self._read(batch, bits)
        except PatternError:
            # Refused events do not determine what a column holds.
            self._seen = before
            raise

    def _read(self, batch: EventBatch, bits: Ints) -> Floats:
        found = np.empty((len(self._program.columns), len(batch)))
        for row, name in enumerate(self._program.columns):
            if name == "ts":
                found[row] = batch.ts
                continue
            numbers = self._floats(batch, name)
            if numbers is not None:
                found[row] = numbers
                continue
            values = self._column(batch, name, bits)
            self._note_kind(name, values)
            if name in self._program.numeric:
                found[row] = self._numbers(name, values)
            else:
                found[row] = self._codes(values)
        for one, other in self._program.pairs:
            kinds = {name: self._seen.get(name) for name in (one, other)}
            if None not in kinds.values() and len(set(kinds.values())) > 1:
                raise PatternError(
                    f"{self._who} compares {one!r} with {other!r}, but {one!r} holds "
                    f"{kinds[one]} and {other!r} {kinds[other]}; compare columns of the same kind"
                )
        return found

    def _floats(self, batch: EventBatch, name: str) -> Floats | None:
        """A column of numbers, without looking at each value; None if it is not one."""
        numbers = _array(batch, name) if name in self._program.numeric else None
        if numbers is None:
            return None
        if numbers.dtype.kind != "f" and not (
            len(numbers) and -_EXACT <= numbers.min() <= numbers.max() <= _EXACT
        ):
            return None
        self._note_kind(name, [0.0])
        return numbers.astype(np.float64)

    def _column(self, batch: EventBatch, name: str, bits: Ints) -> list[Any]:
        """The values of a column; events whose steps read it must have it."""
        payload = batch.payload
        if isinstance(payload, pa.Table) and name in payload.column_names:
            values: list[Any] = payload[name].to_pylist()
            return values
        rows = [] if isinstance(payload, pa.Table) or payload is None else payload
        taken, killed = self._program.needs[name]
        for row in np.flatnonzero((bits[0] & taken) | (bits[1] & killed)).tolist():
            if not rows or name not in rows[row]:
                event = batch[row]
                raise PatternError(
                    f"{self._who} compares {name!r} of different steps, but {event!r} has no "
                    f"{name!r}; it has {sorted(event.payload)}"
                )
        return [row.get(name) for row in rows] if rows else [None] * len(batch)

    def _note_kind(self, name: str, values: list[Any]) -> None:
        kinds = {
            "text" if isinstance(value, str) else "numbers" for value in values if value is not None
        }
        kinds |= {self._seen[name]} if name in self._seen else set()
        if len(kinds) > 1:
            raise PatternError(
                f"{self._who} compares {name!r} of different steps, which holds both text and "
                "numbers; give the column one kind"
            )
        if kinds:
            (self._seen[name],) = kinds

    def _numbers(self, name: str, values: list[Any]) -> list[float]:
        if self._seen.get(name) == "text":
            raise PatternError(
                f"{self._who} orders by {name!r} of different steps or calculates with it, but it "
                "holds text; for text, write the condition as a function in Python"
            )
        large = next((v for v in values if isinstance(v, int) and abs(v) > _EXACT), None)
        if large is not None:
            raise PatternError(
                f"{self._who} compares {name!r} of different steps, which holds {large}: too large "
                "to be exact as a float; write the condition as a function in Python"
            )
        return [np.nan if value is None else float(value) for value in values]

    def _codes(self, values: list[Any]) -> Floats:
        # Both None and NaN are null.
        known = np.array([value is not None and value == value for value in values], np.bool_)
        codes = np.full(len(values), np.nan)
        codes[known] = self._values.codes([v for v, k in zip(values, known, strict=True) if k])
        return codes

    def keep(self) -> None:
        """Note that what was read last is taken in."""
        if self._program.columns:
            self._values.keep()
            self._kinds = self._seen.copy()

    def drop(self) -> None:
        """Discard what was read last, unless it was kept."""
        if self._program.columns:
            self._values.drop()
            self._seen = self._kinds.copy()

    def state_of(self) -> tuple[list[Any], dict[str, str]]:
        """Everything needed to resume elsewhere."""
        return self._values.values, self._kinds

    def resume(self, kept: tuple[list[Any], dict[str, str]]) -> None:
        """Resume from what `state_of` kept."""
        values, self._kinds = shaped(kept, tuple[list[Any], dict[str, str]], "compared columns")
        self._values.resume(values)


def _array(batch: EventBatch, name: str) -> npt.NDArray[Any] | None:
    """A column of numbers as an array, in which null is NaN; None if it is not one."""
    if isinstance(batch, ArrayBatch):
        return batch.array(name)
    payload = batch.payload
    if not isinstance(payload, pa.Table) or name not in payload.column_names:
        return None
    column = payload[name]
    whole = pa.types.is_integer(column.type) and not column.null_count
    return column.to_numpy() if whole or pa.types.is_floating(column.type) else None
