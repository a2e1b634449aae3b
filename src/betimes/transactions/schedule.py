"""Which transaction a free worker should run next: the first one that the predictor allows."""

from __future__ import annotations

from betimes.engine.news.outputs import Place
from betimes.transactions.book import Book, Entry
from betimes.transactions.predictors import Predictor
from betimes.transactions.tracked import Record


class Schedule:
    """Hands out the transactions of a book, and takes back what came of them."""

    def __init__(self, book: Book, predictor: Predictor) -> None:
        self.book = book
        self.predictor = predictor
        self.executions = 0
        self._running: set[Place] = set()
        self._deferred: set[Place] = set()
        """Those that run when it is their turn."""

    def take(self) -> Entry | None:
        """The next transaction to run; None if all that may run are running."""
        book = self.book
        first = book.first_waiting()
        if first is None:
            return None
        base = book.number(first.place)
        self.predictor.begin()
        for entry in book.waiting():
            ahead = book.number(entry.place) - base + 1
            if self._allows(entry, ahead):
                self._running.add(entry.place)
                return entry
        return None

    def _allows(self, entry: Entry, ahead: int) -> bool:
        place = entry.place
        verdict = self.predictor.verdict(entry.event, ahead)
        if place in self._running:
            return False
        if ahead == 1 or verdict is True:
            return True
        if verdict is False:
            self._deferred.add(place)
        if verdict is None or place in self._deferred:
            return False
        return ahead <= verdict

    def done(self, entry: Entry, record: Record) -> bool:
        """A transaction has run: whether it counts."""
        self._running.discard(entry.place)
        self.executions += 1
        kept = self.book.done(entry, record)
        if kept and entry.runs == 1:  # running again is no bet
            self.predictor.note(entry.event, lost=False)
        for loser in self.book.lost:
            self.predictor.note(loser.event, lost=True)
        self.book.lost.clear()
        return kept
