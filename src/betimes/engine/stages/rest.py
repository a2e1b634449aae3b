"""Rest: a stage at which nothing happens except that events wait and its clock moves.

The ordering unit says for how long that is so: up to which time of the clock nothing is released,
nothing is learned and nothing is in doubt, and how far behind the clock an event may be that only
waits like the others. Where a stream is cut makes no difference to a unit, so there are two ways to
spare it work:

* *Put aside*: most upper stages wait for something to be found below. Until then, only clock events
  arrive. They move the clock, and with it how far order is certain, and do nothing else. So the
  unit gets two of them before anybody looks at it: the first one that moves the clock, which shows
  the delays of what came before, and the one that moves it furthest.
* *Gather*: in a live stream, events come one by one, and most of them only wait. As long as this is
  so for all stages, they are gathered before the first of them (`SharedOrder`), and become one
  batch with the event that ends the wait.

A detector with deadlines rests until one of them is due. A stage with observers never rests.
"""

from __future__ import annotations

from betimes.engine.news.making import OutputMaker
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.stages.failures import Failures
from betimes.engine.stages.finality import Finality
from betimes.engine.stages.tactic import Setting, Tactic
from betimes.model.batch import EventBatch
from betimes.model.event import TICK, Event
from betimes.ordering import NEVER, OrderingUnit
from betimes.ordering.step import NO_STILLNESS

_TAKES, _MOVES, _HURRIES = 1, 2, 4
"""What an event does here, as bits: the detector takes it, it moves the clock, it cannot wait."""


class Rest:
    """Clock events that were put aside, and how far the clock has come with and without them."""

    __slots__ = (
        "_ahead", "_allowed", "_by", "_failures", "_finality", "_first", "_furthest", "_limit",
        "_outputs", "_roles", "_setting", "_slack", "_still", "_tactic", "_timed", "_unit",
        "_until", "clock",
    )  # fmt: skip

    def __init__(
        self,
        unit: OrderingUnit,
        tactic: Tactic,
        setting: Setting,
        finality: Finality,
        *,
        allowed: bool,
    ) -> None:
        self._unit = unit
        self._tactic = tactic
        self._setting = setting
        self._outputs: OutputMaker = setting.outputs
        self._failures: Failures = setting.failures
        self._finality = finality
        self._allowed = allowed
        self._by = setting.node.by
        self._roles: dict[str, int] = {}
        self._first: tuple[EventBatch, int] | None = None
        """The first batch that was put aside and moves the clock, and the clock before it."""
        self._furthest: EventBatch | None = None
        """The batch that moves it furthest."""
        self.clock = NEVER
        self._slack = 0
        self._timed = False
        """Whether time makes a difference to the detector."""
        self._still = NO_STILLNESS
        self._until: int | None = None
        """Up to which time clock events can be put aside; None if the unit has to be asked."""
        self._ahead = NEVER
        """How far the clock will have come with everything that was gathered."""
        self._limit: int | None = None
        """Up to which time events can be gathered; None if nothing was gathered so far."""

    def _ask(self) -> int:
        """Ask the unit for how long nothing happens."""
        self.clock, self._slack = self._outputs.path.end
        unit, tactic = self._unit, self._tactic
        self._still = still = unit.stillness()
        self._timed = tactic.passed is not None
        self._until = still.until
        if self._timed and still.until != NEVER:
            self._until = min(still.until, tactic.next_due + still.hold - 1)
        return self._until

    # Put aside

    def takes(self, arrivals: Arrivals) -> bool:
        """Whether clock events can be put aside; if so, they are."""
        batch, clock = arrivals.batch, arrivals.newest
        self._limit = None
        if not self._allowed or TICK in batch.types:
            return False
        until = self._ask() if self._until is None else self._until
        if clock > until:
            return False
        if clock >= self.clock:
            if self._first is None:
                self._first = batch, self.clock
            self._furthest, self.clock = batch, clock
        if self._timed:
            self._tactic.let_pass(self.clock - self._still.hold)
        return True

    @property
    def settled(self) -> int:
        """Up to where order is certain; until something was learned, the newest instant is open."""
        return self.clock - max(self._slack, 1)

    @property
    def moved(self) -> bool:
        """Whether something that moves the clock was put aside."""
        return self._first is not None

    def wake(self) -> int:
        """Give the unit what moves its clock; return how many events that were."""
        assert self._first is not None
        assert self._furthest is not None
        (batch, before), furthest = self._first, self._furthest
        first, last = int((batch.ts >= before).argmax()), int(furthest.ts.argmax())
        self._unit.order(batch.part(first, first + 1))
        self._first = self._furthest = self._until = None
        if furthest is batch and first == last:
            return 1
        self._unit.order(furthest.part(last, last + 1))
        return 2

    @property
    def end(self) -> tuple[int, int]:
        """Clock and slack now."""
        return self.clock, self._slack

    def disturb(self) -> None:
        """Somebody may change the unit."""
        self._until = self._limit = None

    # Gather

    def admits(self, event: Event) -> bool:
        """Whether nothing happens here if this event comes next, after those gathered so far."""
        role = self._roles.get(event.type)
        if role is None:
            role = self._role(event.type)
        if not role:
            return self._allowed
        limit = self._begin() if self._limit is None else self._limit
        ts, clock = event.ts, self._ahead
        if role & _MOVES and ts > clock:
            clock = ts
        if clock > limit:
            return False
        if role & _HURRIES:
            return False
        if role & _TAKES:
            if ts <= self._still.frontier or clock - ts >= self._still.hold:
                return False
            if self._by is not None:
                try:
                    hash(event.payload[self._by])
                except (KeyError, TypeError):
                    return False  # whoever reads it says what is wrong, or accepts it
        return True

    def gather(self, event: Event) -> bool:
        """An event that it admits was gathered; does the clock move?"""
        role, ts = self._roles[event.type], event.ts
        if role & _TAKES:
            limit = ts + self._still.hold - 1
            self._limit = limit if self._limit is None else min(self._limit, limit)
        if role & _MOVES and ts > self._ahead:
            self._ahead = ts
            return True
        return False

    @property
    def settled_ahead(self) -> int:
        """The same as `settled`, with everything that was gathered."""
        return -1 if self._limit is None else self._ahead - max(self._slack, 1)

    def sees(self, type: str) -> bool:
        """Whether events of this type come here."""
        return bool(self._roles[type])

    def _role(self, type: str) -> int:
        takes, moves = self._setting.node.takes(type), self._setting.moves(type)
        hurries = takes and not self._tactic.reads_rows
        self._roles[type] = role = _TAKES * takes | _MOVES * moves | _HURRIES * hurries
        return role

    def _begin(self) -> int:
        """Up to which time events can be gathered, starting now."""
        until = self._ask() if self._until is None else self._until
        if not self._allowed or self._failures:
            until = NEVER
        self._ahead = self.clock
        # An output that becomes final is news.
        self._limit = min(until, self._finality.soonest + max(self._slack, 1) - 1)
        return self._limit
