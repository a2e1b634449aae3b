"""`transactional`: an operator with a shared state, for a hierarchy or for any iterable."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

from betimes.engine.describe import Types, describe, type_names
from betimes.engine.node import Node
from betimes.model.detector import DescribedMaker, DetectorError
from betimes.model.duration import Duration, microseconds
from betimes.model.errors import EventError, OptionError
from betimes.model.event import Event
from betimes.model.hints import known_options
from betimes.model.identity import fact
from betimes.transactions.book import At, Book, Entry
from betimes.transactions.executor import Executor, Workers, checked_workers
from betimes.transactions.foresight import Memos
from betimes.transactions.predictors import Choice, checked_predictor, predictor_of
from betimes.transactions.tactic import TransactionTactic
from betimes.transactions.tracked import Execute, attempt
from betimes.transactions.versions import Base, Versions, settle

_NOWHERE = (0, 0, 0)
_MOST = 1024
"""How many events `run` takes at once, at most."""
_SOON = 0.01
"""Seconds. If that many events take longer to come, `run` takes fewer."""


@dataclass(frozen=True)
class Transactional:
    """What `transactional` returns."""

    execute: Execute
    state: tuple[str, ...] = ()
    on_commit: Callable[[Event, list[Event]], Any] | None = None
    post_commit: Callable[[Event, list[Event]], Any] | None = None
    predictor: Choice = "adaptive"
    workers: Workers = "auto"
    timeout: float | None = None

    @property
    def name(self) -> str:
        """What it is called if nobody names it."""
        return getattr(self.execute, "__name__", None) or type(self.execute).__name__

    @property
    def sent(self) -> Any:
        """What worker processes have to import; None if nobody has asked for them."""
        return self.execute if self.workers not in ("auto", 1) else None

    def facts(self) -> dict[str, str]:
        """What makes it this operator, in words."""
        return {"executes": fact(self.execute), "state": ", ".join(self.state) or "one mapping"}

    def executor(
        self,
        name: str,
        time: Callable[[], float],
        cores: int | None = None,
        memos: Memos | None = None,
    ) -> Executor:
        """What runs its transactions, on so many cores if nobody has said how many."""
        return Executor(
            self.execute, self.state, predictor=self.predictor, workers=self.workers,
            timeout=self.timeout, name=name, time=time, cores=cores, memos=memos,
        )  # fmt: skip

    def explain(self) -> str:
        """Where its transactions will run, with which predictor, and why, as known before the run.

        >>> def count(event, state):
        ...     state.add(event["account"])
        >>> print(transactional(count, workers=1).explain())
        one after the other: workers=1; predictor: static: account
        """
        return self.executor(self.name, perf_counter).explain()

    @property
    def may_run_ahead(self) -> bool:
        """Whether its transactions may run on a cluster, ahead of the engine.

        A guess may run for ever, so with a `timeout` they run only in processes that can be ended.
        """
        return (self.workers, self.predictor, self.timeout) == ("auto", "adaptive", None)

    def run(self, events: Iterable[Event]) -> Iterator[Event]:
        """Execute events in the order in which they come; yield what they make, in that order."""
        book, executor = Book(), self.executor(f"operator {self.name!r}", perf_counter)
        try:
            for batch in _batches(events):
                for number, event in batch:
                    if type(event) is not Event:
                        raise EventError(f"expected Event objects, got {event!r}")
                    book.insert(Entry((number, 0, 0), event))
                ran = executor.run(None, book)
                for entry in ran:
                    made = _made(entry, self.name)
                    if self.on_commit is not None:
                        self.on_commit(entry.event, made)
                    yield from made
                book.forget(batch[-1][0] + 1)
                if self.post_commit is not None:
                    for entry in ran:
                        self.post_commit(entry.event, _made(entry, self.name))
        finally:
            executor.close()


def _batches(events: Iterable[Event]) -> Iterator[list[tuple[int, Event]]]:
    """Events with their numbers: one by one if they come slowly, many at once if they are there."""
    numbered, size = enumerate(events), 1
    began = perf_counter()
    while batch := list(islice(numbered, size)):
        size = min(2 * size, _MOST) if perf_counter() - began < _SOON else max(1, size // 2)
        yield batch
        began = perf_counter()


def _made(entry: Entry, name: str) -> list[Event]:
    record = entry.record
    assert record is not None
    if record.error is not None:
        error = record.error
        raise DetectorError(
            f"operator {name!r} failed at {entry.event!r}: {type(error).__name__}: {error}; it had "
            f"read {record.seen() or 'nothing'}"
        ) from error
    for event in record.made:
        if type(event) is not Event:
            raise DetectorError(
                f"expected operator {name!r} to make Event objects, got {event!r}; yield "
                "bt.Event(type, ts, payload)"
            )
    return record.made


@known_options
def transactional(
    execute: Execute,
    *,
    state: str | Sequence[str] | None = None,
    on_commit: Callable[[Event, list[Event]], Any] | None = None,
    post_commit: Callable[[Event, list[Event]], Any] | None = None,
    predictor: Choice = "adaptive",
    workers: Workers = "auto",
    timeout: Duration | None = None,
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
    post_commit
        The same, for what need not hold up the others: it is called after some of them.
    predictor : "adaptive"
        Which transactions run before it is their turn, if there are worker processes: "always",
        "never", `horizon(n)` for the next `n`, "dynamic" for a horizon that follows the conflicts,
        "static" or "learned" for all that do not use the same keys, as read off the code or as
        seen; or a function of an event and of how far ahead it is. "adaptive" takes "static" if it
        can and "learned" otherwise, and runs transactions one after the other where that is faster.
    workers : "auto"
        Worker processes. "auto" starts one per core once transactions have taken some time and are
        long enough to be worth sending; on Spark, one for each of the `spark.task.cpus`.
    timeout
        How long a worker process may take for some transactions before it is replaced; None to
        wait.

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
    _check_execute(execute)
    names = () if state is None else (state,) if isinstance(state, str) else tuple(state)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise OptionError(f"expected state to be different names, got state={state!r}")
    for option, function in (("on_commit", on_commit), ("post_commit", post_commit)):
        if function is not None and not callable(function):
            raise OptionError(f"expected {option} to be a function, got {option}={function!r}")
    predictor_of(checked_predictor(predictor), execute)
    return Transactional(
        execute, names, on_commit, post_commit, predictor, checked_workers(workers, execute),
        _seconds(timeout),
    )  # fmt: skip


def _check_execute(execute: Execute) -> None:
    """Refuse what cannot be called with an event and a state."""
    wanted = "expected a function execute(event, state)"
    if not callable(execute):
        raise OptionError(f"{wanted}, got {execute!r}; pass the function itself")
    if inspect.iscoroutinefunction(execute) or inspect.isasyncgenfunction(execute):
        raise OptionError(f"{wanted}, got {execute!r}, which is async; write it with plain def")
    try:
        inspect.signature(execute).bind(None, None)
    except TypeError as error:
        raise OptionError(f"{wanted}, got {execute!r}, which cannot take both: {error}") from None
    except ValueError:
        pass  # some built-in functions do not tell


def _seconds(timeout: Duration | None) -> float | None:
    if timeout is None:
        return None
    seconds = microseconds(timeout, "timeout") / 1e6
    if not seconds:
        raise OptionError(f"expected timeout to be longer than 0, got timeout={timeout!r}")
    return seconds


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
    if detector.on_commit is not None or detector.post_commit is not None:
        raise OptionError(
            "expected no on_commit or post_commit for a transactional operator in a hierarchy, "
            "where results may be taken back; take the changes whose status is final instead"
        )
    maker = DescribedMaker(detector, lambda: TransactionDetector(detector))
    return Node(
        name or maker.name, maker, type_names(on, "on"), type_names(emits, "emits"), by,
        TransactionTactic,
    )  # fmt: skip
