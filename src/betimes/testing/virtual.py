"""Virtual time: actors that send each other messages, run by one thread from a seed.

How sixteen processes behave cannot be seen on two cores, and races between processes cannot be
repeated. So the parts that run in parallel are written as **actors**: an actor gets one message at
a time and returns messages for others. It knows nothing about processes, so the same actors run in
one loop, in worker processes, or here, where

* *handling* takes as long as `cost` says, plus what the actor itself spends with `spend`; what
  arrives meanwhile waits in its inbox;
* *a message is in transit* for a random time from `transit`. Two actors are connected by a pipe:
  what one sends another arrives in the order in which it was sent, but messages from different
  senders overtake each other;
* *urgent* messages overtake what waits in the inbox.

Time is an int and the random generator has a seed: the same actors, messages and seed give the same
run, message by message. Other seeds give other interleavings, and that is how races are found.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from betimes.model.errors import OptionError
from betimes.model.hints import known_options

OUTSIDE = "outside"
"""The sender of messages that do not come from an actor."""


class Actor(Protocol):
    """Something that handles one message at a time."""

    def receive(self, message: Any, /) -> Iterable[tuple[str, Any]] | None:
        """Handle a message; return messages to send, each with the name of its receiver."""


@dataclass
class Account:
    """What one actor has done."""

    busy: int = 0
    """How long it has handled messages."""
    handled: int = 0
    waiting: int = 0
    """The longest that its inbox has been."""


class _Inbox:
    """An actor with what waits for it, in two lanes."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.urgent: deque[Any] = deque()
        self.normal: deque[Any] = deque()
        self.busy = False
        self.account = Account()

    def __len__(self) -> int:
        return len(self.urgent) + len(self.normal)

    def put(self, message: Any, *, urgent: bool) -> None:
        (self.urgent if urgent else self.normal).append(message)
        self.account.waiting = max(self.account.waiting, len(self))

    def take(self) -> Any:
        return (self.urgent or self.normal).popleft()


@known_options
class VirtualTime:
    """Run actors in virtual time; `now` is the time.

    `cost(name, message)` says how long the actor `name` takes for a message; `transit` is the
    shortest and the longest time that a message is in transit; `urgent(message)` says which
    messages overtake others in the inbox.

    >>> class Relay:
    ...     def receive(self, message):
    ...         return [("last", message + 1)]
    >>> class Last:
    ...     def __init__(self):
    ...         self.seen = []
    ...
    ...     def receive(self, message):
    ...         self.seen.append(message)
    >>> last = Last()
    >>> world = VirtualTime(
    ...     {"a": Relay(), "b": Relay(), "last": last}, seed=1, cost=lambda name, message: 100
    ... )
    >>> for n in range(4):
    ...     world.send("ab"[n % 2], n)
    >>> world.run()
    >>> world.now, sorted(last.seen), world.accounts["a"].busy
    (500, [1, 2, 3, 4], 200)
    """

    def __init__(
        self,
        actors: Mapping[str, Actor],
        *,
        seed: int = 0,
        cost: Callable[[str, Any], int] = lambda _name, _message: 0,
        transit: tuple[int, int] = (0, 0),
        urgent: Callable[[Any], bool] = lambda _message: False,
    ) -> None:
        low, high = transit
        if not 0 <= low <= high:
            raise OptionError(
                f"expected transit to be the shortest and the longest time, got transit={transit!r}"
            )
        self.now = 0
        self._random = random.Random(seed)
        self._cost = cost
        self._transit = transit
        self._urgent = urgent
        self._inboxes = {name: _Inbox(actor) for name, actor in actors.items()}
        self._agenda: list[tuple[int, float, int, Callable[[], None]]] = []
        """What happens when; a random number decides between equal times."""
        self._entries = 0
        self._arrives: dict[tuple[str, str], tuple[int, float]] = {}
        """When the newest message of each pipe arrives: the next one may not overtake it."""
        self._spent = 0

    @property
    def accounts(self) -> dict[str, Account]:
        """What each actor has done so far."""
        return {name: inbox.account for name, inbox in self._inboxes.items()}

    def send(self, to: str, message: Any, *, sender: str = OUTSIDE) -> None:
        """Put a message on its way, now."""
        if to not in self._inboxes:
            raise OptionError(
                f"expected a message for one of the actors {sorted(self._inboxes)}, got to={to!r}"
            )
        inbox = self._inboxes[to]
        arrival = (self.now + self._random.randint(*self._transit), self._random.random())
        arrival = max(arrival, self._arrives.get((sender, to), arrival))
        self._arrives[sender, to] = arrival
        self._plan(arrival, lambda: self._deliver(to, inbox, message))

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Do something at a time that is not past: send a message, or let an actor die."""
        if time < self.now:
            raise OptionError(f"expected a time from now={self.now} on, got time={time}")
        self._plan((time, self._random.random()), action)

    def replace(self, name: str, actor: Actor) -> None:
        """An actor dies and another takes its place; what was meant for the dead one is lost."""
        self._inboxes[name] = _Inbox(actor)

    @property
    def reading(self) -> int:
        """What a clock shows to the actor that is at work: now, and what it has spent."""
        return self.now + self._spent

    def spend(self, time: int) -> None:
        """Called by an actor while it handles a message: handling takes this much longer."""
        self._spent += time

    def run(self, until: int | None = None) -> None:
        """Run until nothing is left to do, or up to a time."""
        while self._agenda and (until is None or self._agenda[0][0] <= until):
            self.step()
        if until is not None:
            self.now = max(self.now, until)

    def step(self) -> bool:
        """Do what comes next; returns whether there was anything."""
        if not self._agenda:
            return False
        self.now, _, _, action = heapq.heappop(self._agenda)
        action()
        return True

    def _plan(self, when: tuple[int, float], action: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (*when, self._entries, action))

    def _deliver(self, name: str, inbox: _Inbox, message: Any) -> None:
        if self._inboxes[name] is not inbox:
            return  # it has died in the meantime
        inbox.put(message, urgent=self._urgent(message))
        if not inbox.busy:
            self._work(name, inbox)

    def _work(self, name: str, inbox: _Inbox) -> None:
        """Let an actor handle its next message; what it sends leaves when it is done."""
        message = inbox.take()
        inbox.busy = True
        self._spent = 0
        sent = list(inbox.actor.receive(message) or ())
        took = self._cost(name, message) + self._spent
        self._spent = 0
        inbox.account.busy += took
        inbox.account.handled += 1

        def done() -> None:
            if self._inboxes[name] is not inbox:
                return
            for to, content in sent:
                self.send(to, content, sender=name)
            inbox.busy = False
            if len(inbox):
                self._work(name, inbox)

        self._plan((self.now + took, self._random.random()), done)
