"""Random operators, and a state that is nothing but a dictionary to compare with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st

from betimes.model import Event

KEYS = ["a", "b", "c", 1, 1.0, ("t", 2)]
"""Two of them are equal, but a list of keys shows which one came first."""


class PlainState(dict[Any, Any]):
    """What a state means, without any transactions."""

    def add(self, key: Any, number: Any = 1) -> None:
        self[key] = self[key] + number if key in self else number

    def max(self, key: Any, value: Any) -> None:
        self[key] = max(self[key], value) if key in self else value

    def min(self, key: Any, value: Any) -> None:
        self[key] = min(self[key], value) if key in self else value

    def append(self, key: Any, item: Any) -> None:
        self[key] = [*self.get(key, []), item]


def execute(event: Event, state: Any) -> Iterator[Event]:
    """Do what the event says: a small program over a state, with one register."""
    seen = event["start"]
    for name, key, *rest in event["program"]:
        # Numbers and lists live at different keys, so that every update fits.
        if name == "get":
            seen = (seen * 3 + state.get(key, 7)) % 11
        elif name == "set":
            state[key] = seen
        elif name == "has":
            seen += key in state
        elif name == "delete" and key in state:
            del state[key]
        elif name == "pop":
            seen += state.pop(key, 2)
        elif name == "add":
            state.add(key, rest[0])
        elif name == "own":
            state.add(key, seen)
        elif name == "max":
            state.max(key, rest[0])
        elif name == "min":
            state.min(key, rest[0])
        elif name == "append":
            state.append(("list", key), rest[0])
        elif name == "list":
            seen += sum(state.get(("list", key), []))
        elif name == "keys":
            seen = (seen * 5 + sum(n * len(str(k)) for n, k in enumerate(state, 1))) % 13
        elif name == "len":
            seen += len(state)
        elif name == "if" and seen % 2:
            break
        elif name == "fail" and seen % 5 == 0:
            raise ValueError(f"seen is {seen}")
        elif name == "emit":
            yield Event("made", event.ts, {"seen": seen})
    yield Event("made", event.ts, {"seen": seen, "id": event["start"]})


NAMES = [
    "get", "get", "set", "set", "has", "delete", "pop", "add", "add", "own", "max", "min",
    "append", "list", "keys", "len", "if", "fail", "emit",
]  # fmt: skip
STEPS = st.tuples(st.sampled_from(NAMES), st.sampled_from(KEYS), st.integers(-3, 9))
PAYLOADS = st.fixed_dictionaries(
    {"start": st.integers(0, 9), "program": st.lists(STEPS, max_size=6)}
)


def payload_of(chance: random.Random) -> dict[str, Any]:
    """A program from a seed."""
    program = [
        (chance.choice(NAMES), chance.choice(KEYS), chance.randint(-3, 9))
        for _ in range(chance.randint(0, 6))
    ]
    return {"start": chance.randint(0, 9), "program": program}


def serially(events: Iterable[Event], state: PlainState) -> list[list[Event] | str]:
    """What the events make, one after the other; one that fails leaves no trace."""
    results: list[list[Event] | str] = []
    for event in events:
        trial = PlainState(state)
        try:
            made = list(execute(event, trial))
        except ValueError as error:
            results.append(str(error))
            continue
        results.append(made)
        state.clear()
        state.update(trial)
    return results
