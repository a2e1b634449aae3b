"""`transactional`: an operator with a shared state, for a hierarchy or for any iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from betimes.engine.describe import Types, describe, type_names
from betimes.engine.node import Node
from betimes.model.detector import DescribedMaker
from betimes.model.errors import OptionError
from betimes.model.event import Event
from betimes.model.hints import known_options
from betimes.model.identity import fact
from betimes.transactions.book import At
from betimes.transactions.tactic import TransactionTactic
from betimes.transactions.tracked import Execute, attempt
from betimes.transactions.versions import Base, Versions, settle

_NOWHERE = (0, 0, 0)


@dataclass(frozen=True)
class Transactional:
    """What `transactional` returns."""

    execute: Execute
    state: tuple[str, ...] = ()
    on_commit: Callable[[Event, list[Event]], Any] | None = None

    @property
    def name(self) -> str:
        """What it is called if nobody names it."""
        return getattr(self.execute, "__name__", None) or type(self.execute).__name__

    def facts(self) -> dict[str, str]:
        """What makes it this operator, in words."""
        return {"executes": fact(self.execute), "state": ", ".join(self.state) or "one mapping"}

    def run(self, events: Iterable[Event]) -> Iterator[Event]:
        """Execute events in the order in which they come; yield what they make, in that order."""
        detector = TransactionDetector(self)
        for event in events:
            made = detector.on_event(event)
            if self.on_commit is not None:
                self.on_commit(event, made)
            yield from made


@known_options
def transactional(
    execute: Execute,
    *,
    state: str | Sequence[str] | None = None,
    on_commit: Callable[[Event, list[Event]], Any] | None = None,
) -> Transactional:
    """An operator whose events are transactions on a shared state.

    Parameters
    ----------
    execute
        A function `execute(event, state)` that reads and writes the state, a mapping, and returns
        or yields events. What it does must depend on these two only.
    state
        Names, if there are several mappings: with `state=("accounts", "limits")`, `execute` finds
        them in `state["accounts"]` and `state["limits"]`.
    on_commit
        Called as `on_commit(event, made)` in the order of the transactions, by `run` only: in a
        hierarchy, final changes say what is committed.

    The state notes what each event reads and writes. So when an event comes late, only those later
    events run again that read what it has changed. `state.add(key, n)`, `state.max(key, v)`,
    `state.min(key, v)` and `state.append(key, item)` are updates that read nothing, so they never
    make each other run again. Values that can be changed in place are copies: assign them.

    >>> from betimes.engine import Engine, Hierarchy
    >>> def pay(event, balance):
    ...     balance.add(event["from"], -event["amount"])
    ...     balance.add(event["to"], event["amount"])
    ...     return Event("balance", event.ts, {"of": event["to"], "is": balance[event["to"]]})
    >>> ledger = Hierarchy(clock="payment")
    >>> ledger.add(transactional(pay), on="payment", emits="balance")
    >>> payments = [("a", "b", 5, 10), ("b", "c", 3, 30), ("c", "b", 1, 20)]
    >>> events = [
    ...     Event("payment", ts, {"from": a, "to": b, "amount": n}) for a, b, n, ts in payments
    ... ]
    >>> engine = Engine(ledger, attenuation=0)
    >>> _ = engine.feed(events[:2])
    >>> [(change.change_type, change.ts, change.payload["is"]) for change in engine.feed(events[2])]
    [('delete', 30, 3), ('insert', 20, 6), ('insert', 30, 2)]

    It also runs alone, over events in their order:

    >>> [event["is"] for event in transactional(pay).run(sorted(events, key=lambda e: e.ts))]
    [5, 6, 2]
    """
    if not callable(execute):
        raise OptionError(
            f"expected a function execute(event, state), got {execute!r}; pass the function itself"
        )
    names = () if state is None else (state,) if isinstance(state, str) else tuple(state)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise OptionError(f"expected state to be different names, got state={state!r}")
    if on_commit is not None and not callable(on_commit):
        raise OptionError(f"expected on_commit to be a function, got on_commit={on_commit!r}")
    return Transactional(execute, names, on_commit)


class TransactionDetector:
    """Transactions one after the other, on a plain dictionary: the definition of what they find."""

    def __init__(self, operator: Transactional) -> None:
        self._operator = operator
        self._base: Base = {}

    def on_event(self, event: Event) -> list[Event]:
        view = At(Versions(self._base), _NOWHERE)
        record = attempt(self._operator.execute, event, view, self._operator.state)
        if record.error is not None:
            raise record.error
        settle(self._base, record.writes)
        return record.made

    def snapshot(self) -> Base:
        return {name: dict(state) for name, state in self._base.items()}

    def restore(self, saved: Base) -> None:
        self._base = {name: dict(state) for name, state in saved.items()}


@describe.register
def _transactional(
    detector: Transactional, *, on: Types, emits: Types, by: str | None, name: str | None
) -> Node:
    """A transactional operator has its own tactic: what a late event does not touch stays."""
    if detector.on_commit is not None:
        raise OptionError(
            "expected no on_commit for a transactional operator in a hierarchy, where results may "
            "be taken back; take the changes whose status is final instead"
        )
    maker = DescribedMaker(detector, lambda: TransactionDetector(detector))
    return Node(
        name or maker.name, maker, type_names(on, "on"), type_names(emits, "emits"), by,
        TransactionTactic,
    )  # fmt: skip
