"""Payments between accounts that arrive out of order: balances, and a rule that looks at several.

Run it: python examples/ledger.py

A payment touches two accounts, so the state cannot be split by account. Balances are announced at
once; when a payment comes late, only those that depend on it are corrected. After every batch, what
has been announced adds up: no payment is ever seen by half.

With a file name (python examples/ledger.py payments.csv), it also writes the payments down, in the
order of arrival, for the job in ledger.toml.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterator
from typing import Any

import betimes as bt

SECOND = 1_000_000
RECENT = 10 * SECOND


def pay(event: bt.Event, state: Any) -> Iterator[bt.Event]:
    """Book a payment; an account that passes on what several others have just sent is suspect."""
    balances, received = state["balances"], state["received"]
    payer, payee, cents = event["payer"], event["payee"], event["cents"]
    balances[payer] = balances.get(payer, 0) - cents
    balances[payee] = balances.get(payee, 0) + cents
    for account in (payer, payee):
        yield bt.Event(
            "balance", event.ts,
            {"payment": event["payment"], "account": account, "cents": balances[account]},
        )  # fmt: skip
    recently = {}
    for account in (payer, payee):
        got = received.get(account, [])
        recently[account] = [each for each in got if each[0] > event.ts - RECENT]
    senders = sorted({sender for _, sender, _ in recently[payer]} - {payer, payee})
    if len(senders) >= 3 and cents >= 0.8 * sum(amount for *_, amount in recently[payer]):
        left = sum(balances.get(sender, 0) for sender in senders)
        yield bt.Event("suspect", event.ts, {"account": payer, "from": senders, "left": left})
    received[payee] = [*recently[payee], (event.ts, payer, cents)]


def ledger() -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="payment")
    operator = bt.transactional(pay, state=("balances", "received"))
    hierarchy.add(operator, on="payment", emits=("balance", "suspect"), name="ledger")
    return hierarchy


def payments(count: int, accounts: int, seed: int = 1) -> list[bt.Event]:
    """Payments in the order in which they arrive: some up to 10 s late."""
    chance = random.Random(seed)
    arriving = []
    for number in range(count):
        ts = number * SECOND // 10
        payer, payee = chance.sample(range(accounts), 2)
        cents = chance.randint(1, 10_000)
        late = chance.randint(0, 10 * SECOND) if chance.random() < 0.2 else 0
        payload = {"payment": number, "payer": payer, "payee": payee, "cents": cents}
        arriving.append((ts + late, number, bt.Event("payment", ts, payload)))
    return [event for *_, event in sorted(arriving, key=lambda each: each[:2])]


class Announced:
    """What changes say the balances are."""

    def __init__(self) -> None:
        self._told: dict[str, bt.Change] = {}

    def take(self, changes: bt.ChangeBatch) -> None:
        for change in changes:
            if change.change_type == "delete":
                del self._told[change.match_id]
            elif change.change_type == "insert":
                self._told[change.match_id] = change

    def balances(self) -> dict[int, int]:
        told = [change for change in self._told.values() if change.type == "balance"]
        told.sort(key=lambda change: (change.ts, change.payload["payment"]))
        return {change.payload["account"]: change.payload["cents"] for change in told}

    def suspects(self) -> list[int]:
        return [c.payload["account"] for c in self._told.values() if c.type == "suspect"]


def main() -> None:
    stream = payments(1_500, accounts=12)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["ts", "type", *stream[0].payload])
            rows.writerows([event.ts, event.type, *event.payload.values()] for event in stream)

    engine = bt.Engine(ledger(), attenuation=0)
    announced, corrected, wrong = Announced(), 0, 0
    for first in range(0, len(stream), 50):
        changes = engine.feed(stream[first : first + 50])
        corrected += sum(change.change_type == "delete" for change in changes)
        announced.take(changes)
        wrong += sum(announced.balances().values()) != 0
    announced.take(engine.finish())

    stats = engine.stats["ledger"]
    print(f"{len(stream)} payments, {corrected} announcements corrected")
    print(f"{stats.replayed} payments ran again, of {stats.handled}")
    print(f"batches after which balances did not sum to 0: {wrong}")
    for account, cents in sorted(announced.balances().items()):
        print(f"account {account:2}: {cents / 100:10.2f}")
    print(f"suspect: {sorted(set(announced.suspects()))}")


if __name__ == "__main__":
    main()
