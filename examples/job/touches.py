"""The part of the job that is Python: pairs of touches that follow each other closely."""

from collections.abc import Iterator
from dataclasses import dataclass

import betimes as bt


@dataclass
class Pair:
    """Every second touch, with the time since the first."""

    first: int | None = None

    def on_event(self, event: bt.Event) -> Iterator[bt.Event]:
        if self.first is None:
            self.first = event.ts
            return
        yield bt.Event("pair", event.ts, {"took": event.ts - self.first})
        self.first = None


pairs = bt.Hierarchy()
pairs.add(Pair, on="touch", emits="pair")
