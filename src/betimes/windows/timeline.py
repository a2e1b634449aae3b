"""The events of all keys in one order, as columns: what windows of time are ranges of.

New events mostly follow all others. Those that do not are merged with the events after them, so a
late event costs as much as came since. What is no longer needed is dropped from the front.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import Place
from betimes.engine.stages.handed import in_order
from betimes.model import stored
from betimes.model.volumes import Ranges, Ref, VolumeReader, VolumeWriter

Ints = npt.NDArray[np.int64]

NOTHING: Ints = np.empty(0, np.int64)
TS, ARRIVAL, AT, KEY = range(4)
"""Rows of the numbers: the place of an event, when it was handed out, and its key."""
_LENGTH = 2048
"""How many events are written together."""
_WHAT = "the events of windows"
PLAIN = 4
"""How many these are; windows of one key need more (`betimes.windows.runs`)."""


class Growing:
    """Columns that grow at the end and shrink at both."""

    def __init__(self, columns: npt.NDArray[Any]) -> None:
        self._columns = columns
        self._low, self._high = 0, columns.shape[1]

    @property
    def view(self) -> npt.NDArray[Any]:
        return self._columns[:, self._low : self._high]

    def append(self, more: npt.NDArray[Any]) -> None:
        need = self._high + more.shape[1]
        if need > self._columns.shape[1]:
            known = self.view
            room = 2 * (known.shape[1] + more.shape[1])
            self._columns = np.empty((known.shape[0], room), known.dtype)
            self._columns[:, : known.shape[1]] = known
            self._low, self._high = 0, known.shape[1]
        self._columns[:, self._high : self._high + more.shape[1]] = more
        self._high += more.shape[1]

    def keep(self, low: int, high: int) -> None:
        self._low, self._high = self._low + low, self._low + high


class Timeline:
    """Events in order."""

    def __init__(self, expressions: int, rows: int = PLAIN) -> None:
        self._numbers = Growing(np.empty((rows, 0), np.int64))
        self._floats = Growing(np.empty((expressions, 0)))
        self._whole = Growing(np.empty((expressions, 0), np.bool_))
        self.objects: dict[int, list[Any]] = {}
        """Expressions whose values are no plain numbers."""
        self._places: list[Place] | None = None
        """Where events are, if some of them are outputs of other stages."""
        self._dropped = 0
        """How many have been dropped: rows are written by their numbers among all there were."""
        self._ranges = Ranges(_LENGTH)

    def __len__(self) -> int:
        return int(self.numbers.shape[1])

    @property
    def numbers(self) -> Ints:
        return self._numbers.view

    @property
    def floats(self) -> npt.NDArray[np.float64]:
        return self._floats.view

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        return self._whole.view

    def place(self, row: int) -> Place:
        if self._places is not None:
            return self._places[row]
        return self.numbers.item(TS, row), 0, self.numbers.item(ARRIVAL, row)

    def value(self, expression: int, row: int) -> Any:
        """A value as Python has it."""
        if expression in self.objects:
            return self.objects[expression][row]
        value = self.floats.item(expression, row)
        if value != value:
            return None
        return int(value) if self.whole[expression, row] else value

    # Changes

    def insert(
        self,
        numbers: Ints,
        floats: npt.NDArray[np.float64],
        whole: npt.NDArray[np.bool_],
        objects: dict[int, list[Any]],
        places: list[Place] | None,
    ) -> None:
        """Put events, which are in order, in their places."""
        if not numbers.shape[1]:
            return
        known, first = len(self), int(numbers[TS, 0])
        low = known
        if known and self.numbers[TS, -1] >= first:
            low = int(self.numbers[TS].searchsorted(first))
        self._append(numbers, floats, whole, objects, places)
        if low < known:
            self._ranges.cut_off(self._dropped + low)
            self._sort(low)

    def _append(
        self,
        numbers: Ints,
        floats: npt.NDArray[np.float64],
        whole: npt.NDArray[np.bool_],
        objects: dict[int, list[Any]],
        places: list[Place] | None,
    ) -> None:
        before = len(self)
        for expression in objects:
            if expression not in self.objects:
                self._ranges.clear()
                self.objects[expression] = [self.value(expression, row) for row in range(before)]
        if places is not None and self._places is None:
            self._ranges.clear()
            self._places = [self.place(row) for row in range(before)]
        self._numbers.append(numbers)
        self._floats.append(floats)
        self._whole.append(whole)
        rows = range(before, len(self))
        if self._places is not None:
            ties = numbers[[TS, ARRIVAL]].T.tolist()
            self._places += places or [(ts, 0, arrival) for ts, arrival in ties]
        for expression, values in self.objects.items():
            more = objects.get(expression)
            if more is None:
                view, flags = self.floats[expression], self.whole[expression]
                more = [_plain(view.item(row), integer=bool(flags[row])) for row in rows]
            values += more

    def _sort(self, low: int) -> None:
        """Bring what begins with a row into order."""
        numbers, floats, whole = (view[:, low:].copy() for view in self._views)
        if self._places is None:
            order = in_order(numbers[TS], numbers[ARRIVAL])
        else:
            places = self._places[low:]
            order = np.array(sorted(range(len(places)), key=places.__getitem__), np.int64)
            self._places[low:] = [places[row] for row in order.tolist()]
        for values in self.objects.values():
            tail = values[low:]
            values[low:] = [tail[row] for row in order.tolist()]
        for view, part in zip(self._views, (numbers, floats, whole), strict=True):
            view[:, low:] = part.take(order, axis=1)

    @property
    def _views(self) -> tuple[npt.NDArray[Any], ...]:
        return self.numbers, self.floats, self.whole

    def remove(self, place: Place) -> int | None:
        """Take an event out; return its key, or None if there is no such event."""
        row = bisect_left(range(len(self)), place, key=self.place)
        if row == len(self) or self.place(row) != place:
            return None
        key = self.numbers.item(KEY, row)
        self._ranges.cut_off(self._dropped + row)
        for view in self._views:
            view[:, row:-1] = view[:, row + 1 :].copy()
        for column in self._columns:
            column.keep(0, column.view.shape[1] - 1)
        for values in self._lists:
            del values[row]
        return key

    @property
    def is_plain(self) -> bool:
        """Whether all events are input events, whose places are their times and arrivals."""
        return self._places is None

    @property
    def _columns(self) -> tuple[Growing, ...]:
        return self._numbers, self._floats, self._whole

    @property
    def _lists(self) -> list[list[Any]]:
        return [*self.objects.values(), *([] if self._places is None else [self._places])]

    def forget(self, before: int) -> None:
        """Drop what is older."""
        self.drop(int(self.numbers[TS].searchsorted(before)), NOTHING)

    def drop(self, low: int, stay: Ints) -> None:
        """Drop what comes before a row, but for some rows, which are in order."""
        high = len(self)
        if low:
            for column in self._columns:
                if len(stay):
                    column.view[:, low - len(stay) : low] = column.view.take(stay, axis=1)
                column.keep(low - len(stay), high)
            for values in self._lists:
                values[:low] = [values[row] for row in stay.tolist()]
            changed = self._dropped + low
            self._dropped = changed - len(stay)
            self._ranges.drop(self._dropped, changed)
        if not len(self):
            self.objects, self._places = {}, None

    # Elsewhere

    def state_of(self, volumes: VolumeWriter) -> list[tuple[int, int, Ref]]:
        """Everything needed to resume elsewhere; what no longer changes is written once."""
        first = self._dropped

        def cut(low: int, high: int) -> tuple[Any, ...]:
            rows = slice(low - first, high - first)
            views = (np.ascontiguousarray(view[:, rows]) for view in self._views)
            objects = {expression: values[rows] for expression, values in self.objects.items()}
            return *views, objects, None if self._places is None else self._places[rows]

        return self._ranges.write(volumes, first + len(self), cut, _WHAT, first)

    def resume(self, kept: list[Any], volumes: VolumeReader, keys: int) -> None:
        """Resume from what `state_of` kept; there are so many keys."""
        self._dropped = kept[0][0] if kept else 0
        for numbers, floats, whole, objects, places in self._ranges.read(
            volumes, kept, _WHAT, self._dropped
        ):
            stored.array(numbers, np.int64, (self.numbers.shape[0], None), _WHAT)
            shape = self.floats.shape[0], numbers.shape[1]
            stored.array(floats, np.float64, shape, _WHAT)
            stored.array(whole, np.bool_, shape, _WHAT)
            lists = [*objects.values(), *([] if places is None else [places])]
            stored.require(
                all(len(values) == shape[1] for values in lists), f"{_WHAT} are not all there"
            )
            same = objects.keys() == self.objects.keys() and (places is None) == self.is_plain
            stored.require(same or not len(self), f"{_WHAT} do not fit together")
            for growing, part in zip(self._columns, (numbers, floats, whole), strict=True):
                growing.append(part)
            for expression, values in objects.items():
                self.objects.setdefault(expression, []).extend(values)
            if places is not None:
                self._places = [*(self._places or []), *places]
        stored.indices(self.numbers[KEY], keys, "the keys of windows")
        stored.require((np.diff(self.numbers[TS]) >= 0).all(), f"{_WHAT} are not in order")


def _plain(value: float, *, integer: bool) -> Any:
    if value != value:
        return None
    return int(value) if integer else value
