"""Multi-version state: what every transaction wrote, so that each one can read its own past.

For each key there is a **chain**: the effects of the transactions that wrote it, by place. Reading
a key at a place means folding the effects before it. Folded values are kept as long as nothing
before them changes, so reading at the end of a chain, which is the rule, costs one look-up.

Transactions that are forgotten are applied to the *base*, a plain dictionary, in their order; what
it holds is the state before the first remembered transaction.

Keys are listed as a dictionary lists them: in the order in which they were created, and spelled
as whoever created them did (1 and 1.0 are the same key). So a transaction sees the same list as one
that runs alone, whoever arrived first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import is_, itemgetter
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.transactions.effects import (
    DELETE,
    NOTHING,
    Effect,
    Found,
    Key,
    Name,
    apply,
    is_whole,
    leaves_it,
)

Base = dict[Name, dict[Any, Found]]
_UNKNOWN: Any = None
_BIRTH = itemgetter(0, 1)


class _Chain:
    """The effects on one key, by place."""

    __slots__ = ("effects", "keys", "orders", "places", "values")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.effects: list[Effect] = []
        self.orders: list[int] = []
        """Where the key is among those that the transaction wrote."""
        self.keys: list[Any] = []
        """The key as the transaction spelled it."""
        self.values: list[Found | None] = []
        """The values afterwards, as far as they are known."""

    def put(self, place: Place, effect: Effect, order: int, key: Any) -> None:
        at = bisect_left(self.places, place)
        if at < len(self.places) and self.places[at] == place:
            self.effects[at], self.orders[at], self.keys[at] = effect, order, key
        else:
            self.places.insert(at, place)
            self.effects.insert(at, effect)
            self.orders.insert(at, order)
            self.keys.insert(at, key)
            self.values.insert(at, _UNKNOWN)
        self._unknown(at)

    def remove(self, place: Place) -> None:
        at = bisect_left(self.places, place)
        del self.places[at], self.effects[at], self.orders[at], self.keys[at], self.values[at]
        self._unknown(at)

    def drop_first(self) -> None:
        """The first effect is in the base now; what is known still holds."""
        del self.places[0], self.effects[0], self.orders[0], self.keys[0], self.values[0]

    def _unknown(self, at: int) -> None:
        """What is known of the values from here on no longer holds, up to one that is whole."""
        values, effects = self.values, self.effects
        if at < len(values):
            values[at] = _UNKNOWN
        for later in range(at + 1, len(values)):
            if is_whole(effects[later]):
                return
            values[later] = _UNKNOWN

    def value(self, before: int, base: Found, key: Any) -> Found:
        """The value after the first `before` effects."""
        values = self.values
        first = before
        while first and values[first - 1] is _UNKNOWN and not is_whole(self.effects[first - 1]):
            first -= 1
        if first and values[first - 1] is _UNKNOWN:
            values[first - 1] = apply(self.effects[first - 1], NOTHING, key)
        found = values[first - 1] if first else base
        for effect in self.effects[first:before]:
            found = apply(effect, found or NOTHING, key)
        if before > first:
            values[before - 1] = found
        return found or NOTHING


class Versions:
    """The states of one key of the stream, at all remembered places."""

    def __init__(self, base: Base | None = None) -> None:
        self.base: Base = base or {}
        self._chains: dict[Key, _Chain] = {}
        self._listed: dict[Name, list[Any]] = {}
        """The newest list of keys: most transactions find the same, and share it."""

    # Reading

    def value(self, key: Key, place: Place) -> Found:
        """The value of a key as a transaction at this place finds it."""
        chain = self._chains.get(key)
        if chain is None:
            return self._in_base(key)
        places = chain.places
        before = len(places) if places[-1] < place else bisect_left(places, place)
        return chain.value(before, self._in_base(key), key[1])

    def has(self, key: Key, place: Place) -> bool:
        """Whether a key is there."""
        chain = self._chains.get(key)
        before = 0 if chain is None else bisect_left(chain.places, place)
        if chain is None or not before:
            return bool(self._in_base(key))
        return leaves_it(chain.effects[before - 1])

    def keys(self, name: Name, place: Place) -> list[Any]:
        """The keys of a state in the order in which they were created; nobody may change it."""
        base = self.base.get(name, {})
        born: list[tuple[Any, int, Any]] = []
        hidden: set[Any] = set()
        for (mine, key), chain in self._chains.items():
            if mine != name:
                continue
            there, birth = _birth(chain, bisect_left(chain.places, place), key in base)
            if birth is not None or not there:
                hidden.add(key)
            if birth is not None and there:
                born.append((chain.places[birth], chain.orders[birth], chain.keys[birth]))
        born.sort(key=_BIRTH)  # no two were created at once, but keys cannot always be compared
        found = [key for key in base if key not in hidden] + [key for *_, key in born]
        known = self._listed.setdefault(name, found)
        if len(known) != len(found) or not all(map(is_, known, found)):
            known = self._listed[name] = found
        return known

    def _in_base(self, key: Key) -> Found:
        state = self.base.get(key[0])
        return NOTHING if state is None else state.get(key[1], NOTHING)

    # Writing

    def write(self, place: Place, effects: Mapping[Key, Effect]) -> None:
        """What a transaction has written."""
        for order, (key, effect) in enumerate(effects.items()):
            chain = self._chains.get(key)
            if chain is None:
                chain = self._chains[key] = _Chain()
            chain.put(place, effect, order, key[1])

    def erase(self, place: Place, keys: Iterable[Key]) -> None:
        """What a transaction wrote at these keys is void."""
        for key in keys:
            chain = self._chains[key]
            chain.remove(place)
            if not chain.places:
                del self._chains[key]

    def settle(self, effects: Mapping[Key, Effect]) -> None:
        """Forget the first transaction: nothing will be read at or before its place any more."""
        settle(self.base, effects)
        for key in effects:
            chain = self._chains[key]
            chain.drop_first()
            if not chain.places:
                del self._chains[key]

    def until_overwritten(self, key: Key, place: Place) -> Place | None:
        """The last place at which a change of the key at `place` can be seen; None if all."""
        chain = self._chains.get(key)
        if chain is None:
            return None
        for at in range(bisect_right(chain.places, place), len(chain.places)):
            if is_whole(chain.effects[at]):
                return chain.places[at]
        return None

    def is_written(self, key: Key, place: Place) -> bool:
        """Whether a remembered transaction before a place has written a key."""
        chain = self._chains.get(key)
        return chain is not None and chain.places[0] < place

    def all_keys(self) -> Iterator[Key]:
        """Every key that is in the base or was written since."""
        for name, state in self.base.items():
            yield from ((name, key) for key in state)
        yield from self._chains

    # Measures

    def __len__(self) -> int:
        return sum(len(chain.places) for chain in self._chains.values())

    def state(self, name: Name, place: Place) -> dict[Any, Any]:
        """Everything that a state holds at a place."""
        return {key: self.value((name, key), place)[0] for key in self.keys(name, place)}


def settle(base: Base, effects: Mapping[Key, Effect]) -> None:
    """What a state holds after a transaction."""
    for (name, key), effect in effects.items():
        state = base.setdefault(name, {})
        found = apply(effect, state.get(key, NOTHING), key)
        if effect[0][0] == DELETE:
            state.pop(key, None)  # if it was created again, it is the newest key
        if found:
            state[key] = found


def _birth(chain: _Chain, before: int, in_base: bool) -> tuple[bool, int | None]:
    """Whether a key is there after some effects, and which created it; None: it was in the base."""
    if not before:
        return in_base, None
    if not leaves_it(chain.effects[before - 1]):
        return False, None
    for at in range(before - 1, -1, -1):
        if chain.effects[at][0][0] == DELETE:
            return True, at
        there = leaves_it(chain.effects[at - 1]) if at else in_base
        if not there:
            return True, at
    return True, None
