"""From events to the results of windows of time: many windows and keys at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news.digests import encode
from betimes.engine.news.making import FEW
from betimes.engine.news.outputs import NO_OUTPUTS, TIME, Outputs, Place
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.tactic import Setting
from betimes.model.batch import EventBatch, pick
from betimes.model.coded import Coded
from betimes.model.event import Event
from betimes.windows.aggregates import Aggregate
from betimes.windows.kernel import FLOAT, FUNCTIONS, INTEGER, NULL, summarise
from betimes.windows.operators import OWN, OperatorSpec
from betimes.windows.timeline import AT, KEY, TS, Timeline
from betimes.windows.values import Expressions

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Due:
    """Windows that are to be calculated."""

    starts: Ints
    ends: Ints
    wanted: npt.NDArray[np.bool_]
    """Which keys."""
    since: int
    """The first arrival of this batch."""
    newest: dict[int, int]
    """Keys from which something was taken back in this batch, and with which arrival."""
    last: int
    """The newest arrival."""


class Results:
    """Calculates what aggregates give, and commits it."""

    def __init__(
        self, spec: OperatorSpec, expressions: Expressions, timeline: Timeline, setting: Setting
    ) -> None:
        assert isinstance(spec.given, Aggregate)
        columns = spec.given.columns
        self._columns = columns
        self._type = spec.emits[0]
        self._by = spec.by
        self._grouped = setting.grouped
        self._name = spec.name
        self._maker = setting.outputs
        self._timeline = timeline
        self._functions = np.array([FUNCTIONS.index(c.function) for c in columns], np.int64)
        self._numbers = np.array([expressions.number_of(c) for c in columns], np.int64)
        """Which expression each is of."""
        self._shares = np.array([column.share for column in columns])

        self._encoded: list[bytes] = []
        """Keys as they are written in places."""
        self._ranks: Ints = np.empty(0, np.int64)
        """The order of keys."""

    def of(self, due: Due, keys: list[Any]) -> Outputs:
        """The results of windows, in the order of their causes."""
        lows, highs = self._timeline.numbers[TS].searchsorted((due.starts, due.ends))
        about, columns = self._compiled(due, lows, highs) or self._one_by_one(due, lows, highs)
        if not about.shape[1]:
            return NO_OUTPUTS
        self._know(keys)
        order = np.lexsort((self._ranks[about[1]], about[0]))
        about = about[:, order]
        named = self._key_column(about[1], keys)
        for column, found in zip(self._columns, columns, strict=True):
            named[column.name] = found.take(pa.array(order))
        starts, ends = due.starts[about[0]], due.ends[about[0]]
        named |= zip(OWN, map(pa.array, (starts, ends, about[2])), strict=False)
        named[OWN[-1]] = pa.array(np.ones(len(order), np.bool_))
        return self._commit(about, ends, named, self._arrivals(due, about), keys)

    def _compiled(self, due: Due, lows: Ints, highs: Ints) -> tuple[Ints, list[Any]] | None:
        """What each key has in each window, and the results; None if Python has to do it."""
        timeline = self._timeline
        if timeline.objects:
            return None
        numbers = timeline.numbers
        exact, about, results, kinds = summarise(
            lows, highs, numbers[KEY], numbers[AT], due.since, due.wanted, timeline.floats,
            timeline.whole, self._functions, self._numbers, self._shares,
        )  # fmt: skip
        return (about, [*map(_column, results, kinds)]) if exact else None

    def _one_by_one(self, due: Due, lows: Ints, highs: Ints) -> tuple[Ints, list[Any]]:
        """The same in Python, for values that are no plain numbers."""
        slots: dict[tuple[int, int], tuple[list[int], list[Any]]] = {}
        numbers = self._timeline.numbers
        for window, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
            for row in range(low, high):
                key, at = numbers.item(KEY, row), numbers.item(AT, row)
                if not due.wanted[key]:
                    continue
                slot = slots.get((window, key))
                if slot is None:
                    states = [column.begin() for column in self._columns]
                    slot = slots[window, key] = [window, key, 0, -1], states
                slot[0][2] += 1
                if at >= due.since:
                    slot[0][3] = max(slot[0][3], at)
                for number, state in enumerate(slot[1]):
                    self._take(number, state, row)
        about = np.array([slot[0] for slot in slots.values()], np.int64).reshape(-1, 4).T
        columns = [
            _listed([column.result(states[number]) for _, states in slots.values()])
            for number, column in enumerate(self._columns)
        ]
        return about, columns

    def _take(self, number: int, state: list[Any], row: int) -> None:
        column, expression = self._columns[number], int(self._numbers[number])
        value = True if expression < 0 else self._timeline.value(expression, row)
        try:
            column.take(state, value)
        except (TypeError, ArithmeticError) as error:
            raise DetectorFailed(
                f"detector {self._name!r} failed at {self._timeline.place(row)[0]}: "
                f"{column.text} cannot take {value!r} together with the values before it: {error}"
            ) from error

    def _know(self, keys: list[Any]) -> None:
        """Note how keys are written, and their order."""
        if len(self._encoded) < len(keys):
            self._encoded += map(encode, keys[len(self._encoded) :])
            by_text = sorted(range(len(keys)), key=self._encoded.__getitem__)
            self._ranks = np.empty(len(keys), np.int64)
            self._ranks[by_text] = np.arange(len(keys))

    def _key_column(self, codes: Ints, keys: list[Any]) -> dict[str, Any]:
        if self._by is None:
            return {}
        values = pick(keys, codes.tolist())
        return {self._by: _listed([key[1] for key in values] if self._grouped else values)}

    def _arrivals(self, due: Due, about: Ints) -> Ints:
        """The arrivals with which results were known."""
        path = self._maker.path
        reached = np.array([path.reaches(end) for end in due.ends.tolist()], np.int64)
        newest = np.maximum(reached[about[0]], about[3])
        if due.newest:
            taken = [due.newest.get(key, -1) for key in about[1].tolist()]
            newest = np.maximum(newest, np.array(taken, np.int64))
        found: Ints = np.where(newest >= 0, np.minimum(newest, due.last), due.last)
        return found

    def _commit(
        self, about: Ints, ends: Ints, named: dict[str, Any], at: Ints, keys: list[Any]
    ) -> Outputs:
        codes, encoded = about[1], self._encoded

        def places() -> list[Place]:
            pairs = zip(ends.tolist(), codes.tolist(), strict=True)
            return [(end, TIME, encoded[code]) for end, code in pairs]

        if len(ends) < FEW or any(isinstance(column, Listed) for column in named.values()):
            rows = zip(*(column.to_pylist() for column in named.values()), strict=True)
            events = [
                Event(self._type, end, dict(zip(named, row, strict=True)))
                for end, row in zip(ends.tolist(), rows, strict=True)
            ]
            types = ["time"] * len(ends)
            return self._maker.make_few(events, places(), types, at.tolist(), keys, codes.tolist())
        batch = EventBatch(ends, np.zeros(len(ends), np.int32), (self._type,), pa.table(named))
        causes, time = np.stack((ends, codes)), Coded(np.zeros_like(ends), ["time"])
        return self._maker.make_columns(batch, causes, places, time, at, keys, codes)


class Listed:
    """A column of Python objects that Arrow would change."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def take(self, rows: Any) -> Listed:
        return Listed(pick(self._values, rows.to_pylist()))

    def to_pylist(self) -> list[Any]:
        return self._values


_KEPT = frozenset({int, float, str, bool})
"""Types whose values Arrow gives back as they were, if a column has only one of them."""


def _listed(values: list[Any]) -> Any:
    """A column of Python values, in Arrow if it can have them."""
    types = {type(value) for value in values} - {type(None)}
    if len(types) == 1 and types <= _KEPT:
        try:
            return pa.array(values)
        except (OverflowError, pa.ArrowInvalid):
            pass  # an integer that is too large, or text that is no Unicode
    return Listed(values)


def _column(results: npt.NDArray[np.float64], kinds: npt.NDArray[np.int8]) -> Any:
    """A column of results: integers, floats, or both."""
    null = kinds == NULL
    if not (kinds == FLOAT).any():
        return pa.array(np.where(null, 0, results).astype(np.int64), mask=null)
    if not (kinds == INTEGER).any():
        return pa.array(results, mask=null)
    rows = zip(results.tolist(), kinds.tolist(), strict=True)
    return Listed([None if kind == NULL else int(v) if kind == INTEGER else v for v, kind in rows])
