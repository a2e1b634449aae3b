"""Volumes: what no longer changes is written once, however many checkpoints refer to it.

Most of a large checkpoint is history: segments of handled events, and what belongs to them. It
hardly ever changes, so to write it with each checkpoint would be a waste. A checkpoint therefore
consists of *items*. An item that is done, or has not changed for a while, is written into a
**volume** together with others; once the volume is large enough, it is stored by itself, and its
name is the digest of its content. The item remembers where it was written. As long as nothing in it
changes, later checkpoints refer to that place. All other items are part of the checkpoint itself,
in volumes without a name.

Invariant: an item that remembers its place has not changed since it was written there. Whoever
changes it makes it forget its place.

Nobody has to agree on what was stored. Whoever stores volumes says which ones are there, and an
item whose volume is not there is written again; so a crash between two volumes, or a checkpoint
that is never stored, does no harm. Volumes of which little is still used are given up in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from betimes.model.codec import CheckpointError, dumps, loads
from betimes.model.stored import require

LEAST = 256 * 1024
"""Bytes. Smaller volumes are not stored by themselves: that would make too many of them."""

_USED = 0.5
"""A volume of which a smaller share is used is given up."""

_DIGEST = 16

Ref = tuple[int, int]
"""Where a checkpoint has an item: the number of the volume in its table, and the item in it."""


class Kept(NamedTuple):
    """Where an item was written."""

    volume: bytes
    """The name of the volume."""
    place: int
    """Its number in the volume."""
    share: float
    """The share of the volume that it takes."""


_SEEN = Kept(b"", 0, 0.0)
"""An item was part of the last checkpoint itself."""


class Item(Protocol):
    """Something that is written once, as long as it does not change."""

    kept: Kept | None
    """Where it was written; None if it has changed since."""


class Written(NamedTuple):
    """The volumes of a checkpoint."""

    table: list[Any]
    """What the checkpoint holds: the names of volumes, and the items of those without a name."""
    names: frozenset[bytes]
    new: dict[bytes, bytes]
    """Those that have to be stored, by name."""
    wasteful: frozenset[bytes]
    """Those of which little is used."""


def name_of(volume: bytes) -> bytes:
    """The name of a volume."""
    return blake2b(volume, digest_size=_DIGEST).digest()


class VolumeWriter:
    """Writes the items of one checkpoint."""

    def __init__(self, known: Collection[bytes] | None = None) -> None:
        self._known = known
        """The volumes that may be referred to; None: the checkpoint shall contain everything."""
        self._table: list[Any] = [[]]
        self._numbers: dict[bytes, int] = {}
        self._used: dict[bytes, float] = {}
        self._new: dict[bytes, bytes] = {}
        self._open: list[tuple[Item, bytes]] = []
        """The volume that is being written."""
        self._size = 0
        self._number = 0
        """Its number in the table."""

    def put(self, item: Item, state: Callable[[], Any], what: str, *, done: bool) -> Ref:
        """Write an item, if it is not written yet; if it is `done`, it is not expected to change.

        `state` gives its content, and `what` names it in errors.
        """
        kept = item.kept
        if kept is not None and self._known is not None and kept.volume in self._known:
            number = self._numbers.get(kept.volume)
            if number is None:
                number = self._numbers[kept.volume] = len(self._table)
                self._table.append(kept.volume)
            self._used[kept.volume] = self._used.get(kept.volume, 0.0) + kept.share
            return number, kept.place
        data = dumps(state(), what)
        if self._known is None or not (done or kept is not None):
            if self._known is not None:
                item.kept = _SEEN
            self._table[0].append(data)
            return 0, len(self._table[0]) - 1
        if not self._open:
            self._number = len(self._table)
            self._table.append(None)
        self._open.append((item, data))
        ref = self._number, len(self._open) - 1
        self._size += len(data)
        if self._size >= LEAST:
            self._close()
        return ref

    def _close(self) -> None:
        """Give the open volume its name."""
        volume = dumps([data for _, data in self._open], "a volume")
        name = name_of(volume)
        for index, (item, data) in enumerate(self._open):
            item.kept = Kept(name, index, len(data) / self._size)
        self._table[self._number] = name
        self._new[name], self._used[name] = volume, 1.0
        self._open, self._size = [], 0

    def finish(self) -> Written:
        """All items are written."""
        if self._open:
            self._table[self._number] = [data for _, data in self._open]
        wasteful = {name for name, used in self._used.items() if used < _USED}
        return Written(self._table, frozenset(self._used), self._new, frozenset(wasteful))


class VolumeReader:
    """Reads the items of one checkpoint."""

    def __init__(self, table: list[Any], volumes: Mapping[bytes, bytes]) -> None:
        require(isinstance(table, list), "it has no table of volumes")
        self._table = [each if isinstance(each, list) else _open(each, volumes) for each in table]
        self._names = [None if isinstance(each, list) else each for each in table]
        self._sizes = [sum(map(len, each)) for each in self._table]

    def get(self, at: Ref, what: str) -> tuple[Any, Kept | None]:
        """An item, and where it is kept if its volume has a name."""
        number, index = at
        require(0 <= number < len(self._table), f"{what} is in no volume")
        volume, name = self._table[number], self._names[number]
        require(0 <= index < len(volume), f"{what} is not in its volume")
        data = volume[index]
        kept = None if name is None else Kept(name, index, len(data) / self._sizes[number])
        return loads(data, what), kept


def _open(name: Any, volumes: Mapping[bytes, bytes]) -> list[bytes]:
    """The items of a volume, as they were written."""
    require(isinstance(name, bytes), "a volume has no name")
    volume = volumes.get(name)
    instead = "start again from the beginning of the stream"
    if volume is None:
        raise CheckpointError(
            f"volume {name.hex()} of the checkpoint is missing: expected it where the checkpoint "
            f"is stored; put it back, or {instead}"
        )
    if name_of(volume) != name:
        raise CheckpointError(f"volume {name.hex()} of the checkpoint is damaged; {instead}")
    items: list[bytes] = loads(volume, f"volume {name.hex()} of the checkpoint")
    return items


class Range:
    """Rows of a table that grows, from `low` to before `high`."""

    __slots__ = ("high", "kept", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.kept: Kept | None = None


class Ranges:
    """A table that grows at its end and hardly ever changes elsewhere, cut into items."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._ranges: list[Range] = []

    def write(
        self,
        volumes: VolumeWriter,
        end: int,
        cut: Callable[[int, int], Any],
        what: str,
        first: int = 0,
    ) -> list[tuple[int, int, Ref]]:
        """Write a table with the rows from `first` to before `end`; `cut` gives a range of them."""
        low = self._ranges[-1].high if self._ranges else first
        while low + self._length <= end:
            self._ranges.append(Range(low, low + self._length))
            low += self._length
        rest = [Range(low, end)] if low < end else []
        return [
            (each.low, each.high, volumes.put(each, _cutter(cut, each), what, done=done))
            for ranges, done in ((self._ranges, True), (rest, False))
            for each in ranges
        ]

    def read(
        self, volumes: VolumeReader, written: list[tuple[int, int, Ref]], what: str, first: int = 0
    ) -> Iterator[Any]:
        """What `write` has written, piece by piece."""
        end = first
        for number, (low, high, at) in enumerate(written, start=1):
            require(low == end <= high, f"{what} has gaps")
            end = high
            state, kept = volumes.get(at, what)
            if number < len(written) or high - low >= self._length:  # else the rest, which grows
                self._ranges.append(Range(low, high))
                self._ranges[-1].kept = kept
            yield state

    def touch(self, row: int) -> None:
        """A row has changed."""
        for each in self._ranges:
            if each.low <= row < each.high:
                each.kept = None

    def thin(self, before: int) -> None:
        """Of the rows before this one, few are left."""
        count = sum(each.low < before for each in self._ranges)
        if count:
            self._ranges[:count] = [Range(0, self._ranges[count - 1].high)]

    def cut_off(self, row: int) -> None:
        """This row and all after it have changed."""
        while self._ranges and self._ranges[-1].high > row:
            self._ranges.pop()

    def drop(self, before: int, changed: int) -> None:
        """The rows before one are gone, and others before `changed` are not what they were."""
        while self._ranges and self._ranges[0].high <= before:
            del self._ranges[0]
        for each in self._ranges:
            if each.low >= max(before, changed):
                break
            each.low, each.kept = max(each.low, before), None

    def clear(self) -> None:
        """Everything has changed."""
        self._ranges.clear()


def _cutter(cut: Callable[[int, int], Any], each: Range) -> Callable[[], Any]:
    return lambda: cut(each.low, each.high)
