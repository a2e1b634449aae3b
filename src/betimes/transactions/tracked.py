"""The state as a transaction sees it: a mapping that notes what is read and written.

A transaction reads through a *view* (the state at its place, or somebody's guess of it). What it
has read, with the values that it found, is all that its result depends on: if the same reads find
the same values, it need not run again, wherever and whenever it ran. What it writes stays here
until it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from betimes.model.event import Event
from betimes.transactions.effects import (
    ADD,
    APPEND,
    DELETE,
    MAX,
    MIN,
    SET,
    Found,
    Key,
    Name,
    StateError,
    apply,
    checked_key,
    checked_value,
    is_mutable,
    is_whole,
    leaves_it,
    own,
    same,
)

VALUE, HAS, KEYS = "value", "has", "keys"
Read = tuple[str, Name, Any]
"""What was asked: for the value of a key, whether it is there, or for all keys."""
Reads = dict[Read, Found]
Writes = dict[Key, list[tuple[Any, ...]]]
Execute = Callable[[Event, Any], Any]


class View(Protocol):
    """Where a transaction reads."""

    def value(self, key: Key) -> Found: ...

    def has(self, key: Key) -> bool: ...

    def keys(self, name: Name) -> list[Any]: ...


def look(view: View, read: Read) -> Found:
    """What a read finds."""
    kind, name, key = read
    if kind == VALUE:
        return view.value((name, key))
    return (view.has((name, key)),) if kind == HAS else (view.keys(name),)


class Notes:
    """What one transaction has read and written so far."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.reads: Reads = {}
        self.writes: Writes = {}
        self._steps: list[tuple[Key, bool]] = []
        """Which keys were written or deleted, one after the other."""
        self._lent: dict[Key, list[tuple[Any, Any]]] = {}
        """Values that can be changed in place: as the state has them, and what the user has."""

    def read(self, kind: str, name: Name, key: Any) -> Found:
        asked = (kind, name, key)
        found = self.reads.get(asked)
        if found is None:
            found = self.reads[asked] = look(self._view, asked)
        return found

    def value(self, key: Key) -> Found:
        effect = self.writes.get(key)
        if effect is None:
            found = self.read(VALUE, *key)
        elif is_whole(effect):
            found = apply(effect, (), key[1])
        else:
            found = apply(effect, self.read(VALUE, *key), key[1])
        if len(found) > 1:
            raise StateError(found[1])
        if found and is_mutable(found[0]):
            lent = own(found[0])
            self._lent.setdefault(key, []).append((own(lent), lent))
            return (lent,)
        return found

    def has(self, key: Key) -> bool:
        effect = self.writes.get(key)
        if effect is not None:
            return leaves_it(effect)
        known = self.reads.get((VALUE, *key))
        return bool(known) if known is not None else bool(self.read(HAS, *key)[0])

    def keys(self, name: Name) -> list[Any]:
        keys = dict.fromkeys(self.read(KEYS, name, None)[0])
        for (mine, key), there in self._steps:
            if mine == name:
                keys.setdefault(key) if there else keys.pop(key, None)
        return list(keys)

    def write(self, key: Key, operation: tuple[Any, ...], given: Any = None) -> None:
        """Note an operation; `given` is the user's own object, of which its operand is a copy."""
        name = operation[0]
        effect = self.writes.get(key)
        if name in (SET, DELETE):
            # What was there before is nobody's any more.
            self._lent.pop(key, None)
            if name == SET and is_mutable(operation[1]):
                self._lent[key] = [(operation[1], given)]
        if effect and effect[-1][0] == DELETE and name != DELETE:
            # It is created again: it comes after the keys that were created before.
            del self.writes[key]
            self.writes[key] = [(DELETE,), operation]
        elif name == SET and effect and effect[0][0] == DELETE:
            self.writes[key] = [(DELETE,), operation]
        elif effect is None or name in (SET, DELETE):
            self.writes[key] = [operation]
        else:
            effect.append(operation)
        self._steps.append((key, name != DELETE))

    def close(self) -> None:
        """The transaction is done: a value that it changed in place must have been assigned."""
        for (_, key), lent in self._lent.items():
            for was, now in lent:
                if not same((was,), (now,)):
                    raise StateError(
                        f"the value at state key {key!r} was changed in place, from {was!r} to "
                        f"{now!r}; assign it after the change: state[{key!r}] = ..."
                    )


class State(MutableMapping[Any, Any]):
    """A mapping for one transaction, with updates that do not conflict with each other."""

    def __init__(self, notes: Notes, name: Name = None) -> None:
        self._notes = notes
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        found = self._notes.value((self._name, checked_key(key)))
        if not found:
            raise KeyError(key)
        return found[0]

    def get(self, key: Any, default: Any = None) -> Any:
        found = self._notes.value((self._name, checked_key(key)))
        return found[0] if found else default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]  # not the default itself: what is changed in place would be lost

    def __contains__(self, key: Any) -> bool:
        return self._notes.has((self._name, checked_key(key)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._notes.keys(self._name))

    def __len__(self) -> int:
        return len(self._notes.keys(self._name))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, SET, value)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self._notes.write((self._name, checked_key(key)), (DELETE,))

    def popitem(self) -> tuple[Any, Any]:
        """The newest key, as of a dictionary."""
        keys = self._notes.keys(self._name)
        if not keys:
            raise KeyError("popitem(): the state is empty")
        return keys[-1], self.pop(keys[-1])

    def add(self, key: Any, number: Any = 1) -> None:
        """Add a number to a value, which is 0 if there is none."""
        self._write(key, ADD, number)

    def max(self, key: Any, value: Any) -> None:
        """Keep the larger one of two values."""
        self._write(key, MAX, value)

    def min(self, key: Any, value: Any) -> None:
        """Keep the smaller one of two values."""
        self._write(key, MIN, value)

    def append(self, key: Any, item: Any) -> None:
        """Append to a list, which is empty if there is none."""
        self._write(key, APPEND, item)

    def _write(self, key: Any, name: str, value: Any) -> None:
        key = checked_key(key)
        self._notes.write((self._name, key), (name, checked_value(value, key)), value)

    def __repr__(self) -> str:
        return f"<state {self._name or ''}: reads of it count, so it does not print its values>"


class States(Mapping[str, State]):
    """Several states, by name."""

    def __init__(self, notes: Notes, names: Iterable[str]) -> None:
        self._states = {name: State(notes, name) for name in names}

    def __getitem__(self, name: str) -> State:
        if name not in self._states:
            raise StateError(
                f"expected the name of a state, one of {list(self._states)}, got {name!r}; name it "
                "with state="
            )
        return self._states[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)


class Record:
    """What came of running a transaction once."""

    __slots__ = ("error", "made", "reads", "writes")

    def __init__(
        self, reads: Reads, writes: Writes, made: list[Any], error: Exception | None = None
    ) -> None:
        self.reads = reads
        self.writes = writes
        self.made = made
        self.error = error

    def seen(self) -> dict[str, Any]:
        """What it has read, for errors."""
        reads = self.reads.items()
        return {f"{kind} {key!r}": found[0] if found else None for (kind, _, key), found in reads}

    def broken(self, view: View) -> Read | None:
        """The first read that finds another value here; None if all find the same."""
        for read, found in self.reads.items():
            if not same(look(view, read), found):
                return read
        return None


def attempt(execute: Execute, event: Event, view: View, names: tuple[str, ...] = ()) -> Record:
    """Run a transaction; one that fails has written and made nothing."""
    notes = Notes(view)
    state = States(notes, names) if names else State(notes)
    try:
        made = execute(event, state)
        if made is None:
            made = []
        elif type(made) is Event:
            made = [made]
        elif not isinstance(made, Iterable):
            raise TypeError(f"expected it to return or yield events, got {made!r}")
        else:
            made = list(made)
        notes.close()
    except Exception as error:  # noqa: BLE001 - user code may raise anything; it is reported
        return Record(notes.reads, {}, [], error)
    return Record(notes.reads, notes.writes, made)
