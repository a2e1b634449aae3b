"""Operators that worker processes can import, some of which end them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from betimes.model import Event
from tests.transactions.material import execute


def careful(event: Event, state: Any) -> Iterator[Event]:
    """A random program that does not fail."""
    steps = [step for step in event["program"] if step[0] != "fail"]
    return execute(Event("e", event.ts, event.payload | {"program": steps}), state)


def count(event: Event, state: Any) -> Event:
    """How often an account was seen; it says who counted."""
    account = event["account"]
    state[account] = state.get(account, 0) + 1
    return Event("made", event.ts, {"n": state[account]})


def slow_count(event: Event, state: Any) -> Event:
    time.sleep(0.002)
    return count(event, state)


def who(event: Event, state: Any) -> Event:
    """Where it ran."""
    state.add("n")
    return Event("made", event.ts, {"pid": os.getpid(), "n": state["n"]})


def secret(event: Event, state: Any) -> Event:
    """Makes something that cannot travel."""
    state.add("n")
    return Event("made", event.ts, {"f": (lambda: event), "n": state["n"]})


@dataclass(frozen=True)
class Dies:
    """Ends its process, or hangs, the first few times it sees one event; a folder counts them."""

    folder: Path
    times: int
    hang: bool = False
    home: int = -1
    """The process that is spared."""

    def __call__(self, event: Event, state: Any) -> Event:
        deadly = event.ts == 17 and os.getpid() != self.home
        if deadly and len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            if self.hang:
                time.sleep(600)
            os.kill(os.getpid(), signal.SIGKILL)
        return count(event, state)


def needs_the_first(event: Event, state: Any) -> Event:
    """Only the first one writes; without it, all others fail."""
    if event.ts == 0:
        time.sleep(0.05)
        state["first"] = 0
    return Event("made", event.ts, {"found": state["first"]})


def fails(event: Event, state: Any) -> Event:
    state.add("n")
    if state["n"] > 300:
        raise ValueError("too much")
    return Event("made", event.ts)


def chain(event: Event, state: Any) -> None:
    """Each transaction needs the one before it."""
    state[event["account"]] = state.get(event["account"], 0) + 1
