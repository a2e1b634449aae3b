"""Which transactions free workers should run next: the first ones that the predictor allows.

One that has lost comes first again: whoever it lost against has run.
"""

from __future__ import annotations

from betimes.engine.news.outputs import Place
from betimes.transactions.book import Book, Entry
from betimes.transactions.predictors import Predictor
from betimes.transactions.tracked import Record

REACH = 1024
"""How many transactions that wait are looked at, at most."""


class Schedule:
    """Hands out the transactions of a book, and takes back what came of them."""

    def __init__(self, book: Book, predictor: Predictor) -> None:
        self.book = book
        self.predictor = predictor
        self.executions = 0
        self.again = 0
        """How many of them were not the first of their transaction."""
        self._waited: set[Place] = set()
        self._running: set[Place] = set()
        self._deferred: set[Place] = set()
        """Those that run when it is their turn."""
        self._held: set[Place] = set()

    def take(self, count: int, reach: int = REACH) -> list[Entry]:
        """The next transactions to run, at most `count`; those that may run may all be running."""
        book, taken = self.book, list[Entry]()
        first = book.first_waiting()
        if first is None:
            return taken
        base = book.number(first.place)
        self.predictor.begin()
        for looked, entry in enumerate(book.waiting):
            if looked == reach or len(taken) == count:
                break
            if self._allows(entry, book.number(entry.place) - base + 1):
                self._running.add(entry.place)
                taken.append(entry)
        return taken

    def _allows(self, entry: Entry, ahead: int) -> bool:
        place = entry.place
        verdict = self.predictor.verdict(entry.event, ahead)
        if place in self._running or place in self._held:
            return False
        if ahead == 1:
            return True
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
        self._running.discard(entry.place)
        self._held.add(entry.place)

    def done(self, entry: Entry, record: Record, *, exact: bool = False) -> bool:
        """A transaction has run: whether it counts; `exact` if it has just read the state here."""
        self._running.discard(entry.place)
        self._held.discard(entry.place)
        self.executions += 1
        self.again += bool(entry.runs)
        book = self.book
        kept = book.done(entry, record, exact=exact)
        if kept and entry.runs == 1:  # running again is no bet
            self.predictor.note(entry.event, lost=False)
        for loser in book.lost:
            if not loser.told:
                self.predictor.note(loser.event, lost=True)
        book.lost.clear()
        return kept
