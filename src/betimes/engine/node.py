"""A detector in its place: what it is, what it reads and publishes, and which tactic runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from betimes.engine.own import NOTHING_OWN, Own
from betimes.model.detector import Maker
from betimes.model.event import TICK
from betimes.model.identity import spelled_names
from betimes.ordering.clock import EVERY
from betimes.patterns import Pattern

if TYPE_CHECKING:
    from betimes.engine.stages.tactic import TacticMaker


@dataclass(frozen=True)
class Node:
    """One detector of a hierarchy."""

    name: str
    maker: Maker
    on: tuple[str, ...]
    emits: tuple[str, ...]
    by: str | None
    tactic: TacticMaker
    """What runs it."""
    pattern: Pattern | None = None
    keyless: frozenset[str] = frozenset()
    """Types of which an event may have no key; it then belongs to a separate one, as in SQL."""
    own: Own = NOTHING_OWN
    """What it says for itself, over the options of the engine."""

    def facts(self) -> dict[str, str]:
        """Everything that makes it this detector, in words."""
        wired = {
            "on": spelled_names(self.on), "emits": spelled_names(self.emits),
            "by": "nothing" if self.by is None else spelled_names([self.by]),
        }  # fmt: skip
        what = self.maker.facts() if self.pattern is None else self.pattern.facts()
        return wired | what | self.own.wiring()

    def takes(self, type: str) -> bool:
        """Whether it subscribes to input events of this type."""
        return type in self.on or (EVERY in self.on and type != TICK)

    def may_lack_key(self, type: str) -> bool:
        """Whether events of this type need no key: nobody named the type, or it makes nothing."""
        return EVERY in self.on or type in self.keyless

    def group(self, key: Any, *, grouped: bool) -> Any:
        """The part of a key that comes from the engine's `by`, if the engine splits the stream."""
        if not grouped:
            return None
        return key if self.by is None else key[0]
