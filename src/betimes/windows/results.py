"""From events to the results of windows: many windows and keys at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.news.digests import encode
from betimes.engine.news.making import FEW
from betimes.engine.news.outputs import NO_OUTPUTS, TIME, Outputs, Place, Places
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.tactic import END, Setting
from betimes.model.batch import EventBatch, pick
from betimes.model.coded import Coded
from betimes.model.event import Event
from betimes.windows.aggregates import Aggregate
from betimes.windows.kernel import FLOAT, FUNCTIONS, INTEGER, NULL, summarise
from betimes.windows.operators import OWN, OperatorSpec
from betimes.windows.timeline import ARRIVAL, AT, KEY, TS, Timeline
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


@dataclass(frozen=True)
class Runs:
    """Windows to be calculated that are runs of the events of one key."""

    rows: Ints
    """Events, by key and in order."""
    lows: Ints
    """Where each window begins among them, and where it ends."""
    highs: Ints
    codes: Ints
    """Its key."""
    causes: Ints
    """The time of its cause: an event, or a deadline."""
    known: Ints
    """The newest arrival that it depends on."""
    complete: npt.NDArray[np.bool_]
    timed: npt.NDArray[np.bool_]
    """Whether its cause is a deadline."""
    types: Coded
    """The types of causes."""


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
        about, columns = self._sums(None, lows, highs, due.wanted, due.since)
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

    def of_runs(self, runs: Runs, keys: list[Any]) -> Outputs:
        """The same for windows of one key."""
        count = len(runs.lows)
        if not count:
            return NO_OUTPUTS
        self._know(keys)
        numbers, last = self._timeline.numbers, runs.rows[runs.highs - 1]
        tie = np.where(runs.timed, self._ranks[runs.codes], last)
        order = np.lexsort((tie, runs.causes))  # stable: windows of one key stay in their order
        wanted = np.ones(len(keys), np.bool_)
        _, columns = self._sums(runs.rows, runs.lows, runs.highs, wanted, END)
        named = self._key_column(runs.codes[order], keys)
        for column, found in zip(self._columns, columns, strict=True):
            named[column.name] = found.take(pa.array(order))
        starts, ends = numbers[TS, runs.rows[runs.lows]][order], numbers[TS, last][order]
        sizes, complete = (runs.highs - runs.lows)[order], runs.complete[order]
        named |= zip(OWN, map(pa.array, (starts, ends, sizes, complete)), strict=True)
        causes = _Causes(
            runs.causes[order], tie[order], runs.timed[order], last[order], runs.codes[order],
            Coded(runs.types.codes[order], runs.types.values),
        )  # fmt: skip
        return self._commit_runs(causes, ends, named, runs.known[order], keys)

    def _sums(
        self, rows: Ints | None, lows: Ints, highs: Ints, wanted: Any, since: int
    ) -> tuple[Ints, list[Any]]:
        """What each key has in each window, and the results; of some events, or of all."""
        about = self._compiled(rows, lows, highs, wanted, since)
        return about or self._one_by_one(rows, lows, highs, wanted, since)

    def _compiled(
        self, rows: Ints | None, lows: Ints, highs: Ints, wanted: Any, since: int
    ) -> tuple[Ints, list[Any]] | None:
        """None if Python has to do it."""
        timeline = self._timeline
        if timeline.objects:
            return None
        keys, at = timeline.numbers[KEY], timeline.numbers[AT]
        floats, whole = timeline.floats, timeline.whole
        if rows is not None:
            keys, at = keys.take(rows), at.take(rows)
            floats, whole = floats.take(rows, axis=1), whole.take(rows, axis=1)
        exact, about, results, kinds = summarise(
            lows, highs, keys, at, since, wanted, floats, whole, self._functions, self._numbers,
            self._shares,
        )  # fmt: skip
        return (about, [*map(_column, results, kinds)]) if exact else None

    def _one_by_one(
        self, rows: Ints | None, lows: Ints, highs: Ints, wanted: Any, since: int
    ) -> tuple[Ints, list[Any]]:
        """The same in Python, for values that are no plain numbers."""
        slots: dict[tuple[int, int], tuple[list[int], list[Any]]] = {}
        numbers = self._timeline.numbers
        for window, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
            for row in range(low, high) if rows is None else rows[low:high].tolist():
                key, at = numbers.item(KEY, row), numbers.item(AT, row)
                if not wanted[key]:
                    continue
                slot = slots.get((window, key))
                if slot is None:
                    states = [column.begin() for column in self._columns]
                    slot = slots[window, key] = [window, key, 0, -1], states
                slot[0][2] += 1
                if at >= since:
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

    def _commit_runs(
        self, causes: _Causes, ends: Ints, named: dict[str, Any], known: Ints, keys: list[Any]
    ) -> Outputs:
        codes, timed = causes.codes, causes.timed
        few = len(ends) < FEW or any(isinstance(column, Listed) for column in named.values())
        if few or causes.ts[-1] == END:  # so far in the future, there is no arithmetic
            rows = zip(*(column.to_pylist() for column in named.values()), strict=True)
            events = [
                Event(self._type, end, dict(zip(named, row, strict=True)))
                for end, row in zip(ends.tolist(), rows, strict=True)
            ]
            places, types = self._places(causes), causes.types.spelled()
            return self._maker.make_few(events, places, types, known.tolist(), keys, codes.tolist())
        batch = EventBatch(ends, np.zeros(len(ends), np.int32), (self._type,), pa.table(named))
        arrivals: Ints | None = None
        spelled: Places = partial(self._places, causes)
        if not timed.any():
            spelled = self._places(causes)
            if self._timeline.is_plain:
                arrivals = self._timeline.numbers[ARRIVAL, causes.rows]
        numbers = np.stack((causes.ts, causes.ties))
        return self._maker.make_columns(
            batch, numbers, spelled, causes.types, known, keys, codes, arrivals
        )

    def _places(self, causes: _Causes) -> list[Place]:
        place, encoded = self._timeline.place, self._encoded
        columns = zip(
            causes.ts.tolist(), causes.timed.tolist(), causes.rows.tolist(), causes.codes.tolist(),
            strict=True,
        )  # fmt: skip
        return [(ts, TIME, encoded[c]) if timed else place(row) for ts, timed, row, c in columns]


class _Causes(NamedTuple):
    """Why windows end."""

    ts: Ints
    ties: Ints
    timed: npt.NDArray[np.bool_]
    rows: Ints
    """The last event of each."""
    codes: Ints
    types: Coded


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
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
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
