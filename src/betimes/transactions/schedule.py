"""Which transactions free workers should run next: the first ones that the predictor allows.

One that has lost comes first again: whoever it lost against has run.

If the predictor knows keys, transactions with a common key follow each other. Where workers get
several transactions at once, those behind one that is running go to the worker that runs it: it
knows what they will find long before anybody else. Such a worker takes them first, because nobody
else can, and leaves the others the rest.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.transactions.book import Book, Entry
from betimes.transactions.predictors import Predictor
from betimes.transactions.tracked import Record

REACH = 1024
"""How many transactions that wait are looked at, at most."""
_CHOICE = 2
"""How many times as many as are wanted are looked for: some workers have to take later ones."""
_ANYBODY, _NOBODY = -1, -2
_PLACE = attrgetter("place")


class Schedule:
    """Hands out the transactions of a book, and takes back what came of them."""

    def __init__(self, book: Book, predictor: Predictor) -> None:
        self.book = book
        self.predictor = predictor
        self.executions = 0
        self.again = 0
        """How many of them were not the first of their transaction."""
        self._waited: set[Place] = set()
        self._running: dict[Place, int | None] = {}
        """Which transactions are running, and where."""
        self._deferred: set[Place] = set()
        """Those that run when it is their turn."""
        self._held: set[Place] = set()

    def take(self, count: int, reach: int = REACH, worker: int | None = None) -> list[Entry]:
        """The next transactions to run, at most `count`; those that may run may all be running.

        `worker` is the one that runs them, if it runs what it gets in order.
        """
        book, free, own = self.book, list[Entry](), list[Entry]()
        first = book.first_waiting()
        if first is None:
            return free
        base = book.number(first.place)
        last: dict[Any, int | None] = {}
        for looked, entry in enumerate(book.waiting):
            if looked == reach or len(own) == count or len(own) + len(free) == _CHOICE * count:
                break
            owner = self._owner(entry, last, worker)
            if entry.place in self._running or entry.place in self._held:
                continue
            if entry is not first and owner == _NOBODY:
                self._waited.add(entry.place)
            elif entry is first or self._allows(entry, book.number(entry.place) - base + 1):
                (own if owner == worker else free).append(entry)
        taken = own + free[: count - len(own)]
        if own:
            taken.sort(key=_PLACE)
        for entry in taken:
            self._running[entry.place] = worker
        return taken

    def _owner(self, entry: Entry, last: dict[Any, int | None], worker: int | None) -> int | None:
        """Who runs a transaction, or who has to, because of what comes before it.

        `last` says the same about the last transaction with each key so far.
        """
        keys = self.predictor.keys(entry.event)
        if not keys:
            return _ANYBODY
        if entry.place in self._running:
            owner = self._running[entry.place]
        elif entry.place in self._held:
            owner = _NOBODY
        else:
            before = {last[key] for key in keys if key in last}
            if not before:
                owner = _ANYBODY
            elif worker is None or not before <= {worker, _ANYBODY}:
                owner = _NOBODY
            else:
                owner = _ANYBODY if _ANYBODY in before else worker
        last.update(dict.fromkeys(keys, owner))
        return owner

    def _allows(self, entry: Entry, ahead: int) -> bool:
        place = entry.place
        verdict = self.predictor.verdict(entry.event, ahead)
        if verdict is False:
            self._deferred.add(place)
        may = place not in self._deferred
        if may and verdict is not None and (verdict is True or ahead <= verdict):
            return True
        self._waited.add(place)
        return False

    @property
    def waits(self) -> int:
        """How many transactions the predictor did not let run when a worker was free."""
        return len(self._waited)

    def runs(self, entry: Entry) -> bool:
        """Whether a transaction is running."""
        return entry.place in self._running

    def hold(self, entry: Entry) -> None:
        """Do not hand out a transaction again; whoever asks for this runs it in its turn."""
        self._running.pop(entry.place, None)
        self._held.add(entry.place)

    def done(self, entry: Entry, record: Record, *, exact: bool = False) -> bool:
        """A transaction has run: whether it counts; `exact` if it has just read the state here."""
        self._running.pop(entry.place, None)
        self._held.discard(entry.place)
        self.executions += 1
        self.again += bool(entry.runs)
        book = self.book
        kept = book.done(entry, record, exact=exact)
        if kept and entry.runs == 1 and not exact:  # these are no bets
            self.predictor.note(entry.event, lost=False)
        for loser in book.lost:
            if not loser.told:
                self.predictor.note(loser.event, lost=True)
        book.lost.clear()
        return kept
