"""The public consistency oracle for stream processors, on the local engine.

`python -m tests.transactions.consistency --transfers 10000000 --accounts 10`

Money is transferred among accounts, and transfers arrive up to 10 s out of order. Money is neither
made nor lost, so after *every* batch of changes, provisional ones too, the balances that have been
announced and not taken back must sum to 0: half of a transfer must never show. (The idea is from
Jamie Brandon, *Internal consistency in streaming systems*, 2021.)

Here more must hold after every batch. What is final must fit together by itself, too. The balances
of an account are numbered, and the numbers must have no gap. With attenuation 0 every transfer is
announced at once, so each balance must be what the transfers that have come make it; in the end it
must be, whatever the attenuation.

Batches have random sizes from 1 to 1,000, unless one is given.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import random
import sys
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import betimes as bt
from betimes.model import Event

LATEST = 10_000_000
"""Microseconds. No transfer arrives later than this."""
EVERY = 20_000
"""Microseconds between transfers; two of them happen at each moment."""
MOST = 1_000
"""The size of a batch, at most, if none is given."""
_GONE = -(2**63)
_PAUSE = 10.0
"""Seconds between two reports."""


class InconsistencyError(AssertionError):
    """Balances were announced that do not fit together."""


def transfer(event: Event, accounts: Any) -> Iterator[Event]:
    """Move money, and announce both balances, each with its number."""
    cents = event["cents"]
    for account, change in ((event["payer"], -cents), (event["payee"], cents)):
        number, balance = accounts.get(account, (0, 0))
        number, balance = number + 1, balance + change
        accounts[account] = number, balance
        yield Event("balance", event.ts, {"account": account, "number": number, "balance": balance})


def ledger(**options: Any) -> bt.Hierarchy:
    """The transfers as transactions; options of `transactional`."""
    hierarchy = bt.Hierarchy(clock="transfer")
    operator = bt.transactional(transfer, **options)
    hierarchy.add(operator, on="transfer", emits="balance", name="ledger")
    return hierarchy


class Transfers:
    """Transfers in the order of their arrival; it can be pickled at any point."""

    def __init__(self, count: int, accounts: int, seed: int) -> None:
        self._count = count
        self._accounts = accounts
        self._chance = random.Random(seed)
        self._number = 0
        self._coming: list[tuple[int, int, Event]] = []

    def __iter__(self) -> Transfers:
        return self

    def __next__(self) -> Event:
        while self._number < self._count and not self._arrives(self._number // 2 * EVERY):
            self._send(self._number // 2 * EVERY)
        if not self._coming:
            raise StopIteration
        return heapq.heappop(self._coming)[2]

    def _arrives(self, now: int) -> bool:
        return bool(self._coming) and self._coming[0][0] <= now

    def _send(self, ts: int) -> None:
        chance = self._chance
        payer, payee = chance.randrange(self._accounts), chance.randrange(self._accounts)
        payload = {"payer": payer, "payee": payee, "cents": chance.randint(1, 9_999)}
        event = Event("transfer", ts, payload)
        heapq.heappush(self._coming, (ts + chance.randint(0, LATEST), self._number, event))
        self._number += 1


def transfers(count: int, accounts: int, seed: int) -> Iterator[Event]:
    """Transfers in the order of their arrival."""
    return Transfers(count, accounts, seed)


class Announced:
    """What all changes so far say about the accounts."""

    def __init__(self) -> None:
        self._history: dict[int, array[int]] = {}
        """The balances of each account; the first one has the number 1."""
        self._gaps: set[tuple[int, int]] = set()
        self.balances: Counter[int] = Counter()
        self.total = 0
        self.taken_back = 0

    def take(self, changes: Iterable[tuple[str, Mapping[str, int]]]) -> None:
        """A batch of changes, after which everything must fit: kinds of change, and payloads."""
        touched = {
            self._apply(kind, row["account"], row["number"], row["balance"])
            for kind, row in changes
            if kind != "confirm"
        }
        for account in touched:
            history = self._history[account]
            while history and history[-1] == _GONE:
                self._gaps.discard((account, len(history)))
                history.pop()
            now = history[-1] if history else 0
            self.total += now - self.balances[account]
            self.balances[account] = now
        if self.total:
            raise InconsistencyError(f"the balances sum to {self.total}")
        if self._gaps:
            account, number = min(self._gaps)
            raise InconsistencyError(f"account {account} has no balance number {number}")

    def _apply(self, kind: str, account: int, number: int, balance: int) -> int:
        history = self._history.setdefault(account, array("q"))
        while len(history) < number:
            history.append(_GONE)
            self._gaps.add((account, len(history)))
        before = history[number - 1]
        if before != (balance if kind == "delete" else _GONE):
            said = "nothing" if before == _GONE else before
            raise InconsistencyError(
                f"{kind} of balance {balance}, number {number} of account {account}, where "
                f"{said} was announced"
            )
        if kind == "delete":
            self.taken_back += 1
            history[number - 1] = _GONE
            self._gaps.add((account, number))
        else:
            history[number - 1] = balance
            self._gaps.discard((account, number))
        return account


def book(balances: Counter[int], events: Iterable[Event]) -> None:
    """What transfers make of balances: the truth."""
    for event in events:
        balances[event["payer"]] -= event["cents"]
        balances[event["payee"]] += event["cents"]


def check(announced: Announced, truth: Counter[int], accounts: Iterable[int]) -> None:
    """These accounts are announced to have what they have."""
    for account in accounts:
        if announced.balances[account] != truth[account]:
            raise InconsistencyError(
                f"account {account} has {truth[account]}, but "
                f"{announced.balances[account]} was announced"
            )


def rows(changes: Iterable[bt.Change]) -> Iterator[tuple[str, Mapping[str, int]]]:
    return ((change.change_type, change.payload) for change in changes)


def final_rows(changes: Iterable[bt.Change]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """What someone gets who waits until balances are final; a late transfer may repair them."""
    final = [change for change in changes if change.status == "final"]
    yield from rows(change for change in final if change.change_type == "delete")
    yield from (("insert", change.payload) for change in final if change.change_type != "delete")


class LocalRun:
    """Transfers through an engine, checked after each batch; it can be pickled between batches."""

    def __init__(
        self,
        count: int,
        accounts: int,
        *,
        batch: int | None,
        attenuation: float,
        seed: int,
        most: int = MOST,
    ) -> None:
        self._events = Transfers(count, accounts, seed)
        self._chance = random.Random(seed)
        self._batch = batch
        self._most = most
        self._attenuation = attenuation
        self._engine = self._new_engine()
        self._truth: Counter[int] = Counter()
        self.announced = Announced()
        self.final = Announced()
        self.done = self.sizes = 0

    def _new_engine(self) -> bt.Engine:
        return bt.Engine(ledger(workers=1), attenuation=self._attenuation)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_engine": self._engine.checkpoint()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._engine = self._new_engine()
        self._engine.restore(state["_engine"])

    def batches(self) -> Iterator[int]:
        """Feed batch by batch; yields how many transfers each one had."""
        while coming := list(islice(self._events, self._size())):
            self._take(self._engine.feed(coming))
            book(self._truth, coming)
            if self._attenuation == 0:
                touched = {event[side] for event in coming for side in ("payer", "payee")}
                check(self.announced, self._truth, touched)
            self.done, self.sizes = self.done + len(coming), self.sizes + 1
            yield len(coming)
        self._take(self._engine.finish())
        for announced in (self.announced, self.final):
            check(announced, self._truth, self._truth)

    def _take(self, changes: bt.ChangeBatch) -> None:
        known = list(changes)
        self.announced.take(rows(known))
        self.final.take(final_rows(known))

    def _size(self) -> int:
        """As many sizes from 1 to 10 as from 100 to 1,000."""
        return self._batch or int(self._most ** self._chance.random())

    @property
    def again(self) -> int:
        """How many transfers ran again."""
        return self._engine.stats["ledger"].replayed


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--transfers", type=int, default=10_000_000)
    parser.add_argument("--accounts", type=int, default=10)
    parser.add_argument("--batch", type=int, help="transfers per batch")
    parser.add_argument("--most", type=int, default=MOST, help="per batch, if sizes are random")
    parser.add_argument("--attenuation", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="a file to resume from, and to stop into")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    options = parser.parse_args(arguments)
    if options.resume is not None and options.resume.exists():
        run = pickle.loads(options.resume.read_bytes())
    else:
        run = LocalRun(
            options.transfers, options.accounts, batch=options.batch, most=options.most,
            attenuation=options.attenuation, seed=options.seed,
        )  # fmt: skip
    began = reported = time.monotonic()

    def report() -> None:
        seconds = time.monotonic() - began
        print(
            f"{run.done:,} of {options.transfers:,} transfers among {options.accounts:,} accounts "
            f"in {run.sizes:,} batches, {run.again:,} ran again, {run.announced.taken_back:,} "
            f"balances taken back: consistent after every batch ({seconds:.0f} s)",
            flush=True,
        )

    try:
        for _ in run.batches():
            if time.monotonic() > reported + _PAUSE:
                report()
                reported = time.monotonic()
            if time.monotonic() > began + options.seconds:
                options.resume.write_bytes(pickle.dumps(run))
                break
    except InconsistencyError as error:
        sys.exit(f"batch {run.sizes}, after {run.done:,} transfers: {error}")
    report()


if __name__ == "__main__":
    main()
