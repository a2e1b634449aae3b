"""Where transactions run: here, or in worker processes if that pays.

Which of the two is faster depends on the operator, on the conflicts and on the machine, so it is
measured (`contest.py`). A trial is short: if worker processes turn out to be slower, what is left
is run here. What runs here also shows which transactions would have conflicted if they had run at
once, so a trial does not begin with a predictor that knows nothing. Short transactions are never
sent: that would take longer than running them. What was run ahead on a cluster (`foresight.py`) and
holds is not run at all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from betimes.model.errors import OptionError
from betimes.parallel import ShippingError, free_threaded, needs_script, packed
from betimes.transactions.book import Book, Entry
from betimes.transactions.contest import Contest
from betimes.transactions.crew import Processes, Threads
from betimes.transactions.effects import Key
from betimes.transactions.foresight import Memos
from betimes.transactions.predictors import Choice, Hindsight, predictor_of
from betimes.transactions.serial import run
from betimes.transactions.tracked import Execute, attempt

Workers = int | str
WORTH = 60e-6
"""Seconds. Shorter transactions run here."""
START = 2.0
"""Seconds of work that must have been done before processes are started without being asked for."""
TRIAL = 64
"""Transactions after which it is known how fast they are."""
_CONFLICTS = 1024
"""Keys that conflict and are remembered, at most."""
WORK = "executions", "again", "ahead", "aborts", "waits", "seconds", "worked"
_NAMED = 3
"""How many of them `explain` names."""


def checked_workers(workers: Workers, execute: Execute) -> Workers:
    """How many worker processes; an error if `execute` cannot be sent there."""
    if workers == "auto":
        return workers
    if type(workers) is not int or workers < 1:
        raise OptionError(
            f"expected workers to be 'auto' or a number from 1 on, got workers={workers!r}"
        )
    if workers > 1 and not free_threaded():
        packed(execute, "execute")
    return workers


class Executor:
    """Runs what waits in the books of one operator."""

    def __init__(
        self,
        execute: Execute,
        names: tuple[str, ...],
        *,
        predictor: Choice,
        workers: Workers,
        timeout: float | None,
        name: str,
        time: Callable[[], float],
        cores: int | None = None,
        memos: Memos | None = None,
    ) -> None:
        self._execute = execute
        self._names = names
        self._choice = predictor
        self._predictor = predictor_of(predictor, execute, name)
        self._timeout = timeout
        self._name = name
        self._time = time
        self._crew: Processes | Threads | None = None
        self._threads = free_threaded() and timeout is None
        """Threads cannot be ended, so a timeout needs processes."""
        self._memos = memos
        self._contest = Contest()
        """Here (False) against there (True)."""
        self._why = "no transaction has run yet"
        self._starting = False
        """Whether processes were starting in the last run: that says nothing about their speed."""
        self._cold = True
        """Whether nothing has run here: the first transactions take several times as long."""
        self._asked = workers != "auto"
        self._workers = self._count(workers, cores)
        self._hindsight = Hindsight()
        self.conflicts: Counter[Key] = Counter()
        """How often each key was the reason that a transaction had to run again."""
        self.work: dict[str, float] = dict.fromkeys(WORK, 0)
        """What has been done; `worked` is seconds of executing, by all workers."""

    def _count(self, workers: Workers, cores: int | None) -> int:
        if isinstance(workers, int):
            if workers == 1:
                self._why = "workers=1"
            return workers
        if cores is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        if cores == 1:
            self._why = "there is one core for it (on Spark, see spark.task.cpus)"
        if cores == 1 or self._threads:
            return cores
        try:
            code = packed(self._execute, "execute")
        except ShippingError as error:
            self._why = str(error)
            return 1
        if needs_script(code):
            # Workers would have to run the script, and nobody has asked for that.
            self._why = "execute is defined in the script itself; say workers=2 if you want them"
            return 1
        return cores

    def run(self, key: Any, book: Book) -> list[Entry]:
        """Run everything that waits in a book; all that ran, in order."""
        ran: dict[Any, Entry] = {}
        started = self._time()
        if self._memos:
            ran.update((entry.place, entry) for entry in self._recall(book))
        while book.first_waiting() is not None:
            began = self._time()
            there = self._chooses_processes(len(book.waiting))
            entries = self._run_there(key, book) if there else self._run_here(book)
            self._note(there, self._time() - began, len(entries))
            ran.update((entry.place, entry) for entry in entries)
        if self._memos is not None:
            self._memos.ran(len(ran), self._time() - started)
            waited, worked = self._memos.worked()
            self.work["seconds"] += waited
            self.work["worked"] += worked
        self.work["aborts"] += book.aborts
        book.aborts = 0
        if book.conflicts:
            self.conflicts.update(book.conflicts)
            book.conflicts.clear()
            if len(self.conflicts) > _CONFLICTS:
                self.conflicts = Counter(dict(self.conflicts.most_common(_CONFLICTS // 2)))
        return [ran[place] for place in sorted(ran)]

    def _recall(self, book: Book) -> list[Entry]:
        """Take what was run ahead and holds, in order; what does not hold is run in its turn."""
        memos, waiting = self._memos, list(book.waiting)
        assert memos is not None
        for entry in waiting:
            record = memos.take(entry, book.view(entry))
            if record is not None:
                self.work["ahead"] += 1
            else:
                began = self._time()
                record = attempt(self._execute, entry.event, book.view(entry), self._names)
                self.work["executions"] += 1
                self.work["again"] += bool(entry.runs)
                self._note(False, self._time() - began, 1)
            book.done(entry, record, exact=True)
        for entry in waiting:
            memos.drop(entry)
        book.lost.clear()
        return waiting

    def _run_here(self, book: Book) -> list[Entry]:
        most = None if self._workers == 1 else TRIAL
        entries = list(run(book, self._execute, self._names, most))
        self.work["executions"] += len(entries)
        self.work["again"] += sum(entry.runs > 1 for entry in entries)
        if self._workers > 1 and self._contest.costs.get(False, 0.0) >= WORTH:
            for entry in entries:
                self._predictor.note(entry.event, lost=self._hindsight.conflicts(entry.record))
        return entries

    def _run_there(self, key: Any, book: Book) -> list[Entry]:
        crew = self._crew
        if crew is None:
            crew = self._crew = self._started()
        began, worked, self._starting = self._time(), crew.worked, not all(crew.pool.ready)

        def goes_on(ran: int) -> bool:
            if self._choice != "adaptive" or ran < TRIAL:
                return True
            return (self._time() - began) / ran < self._contest.costs[False]

        schedule, ran = crew.run(key, book, self._predictor, goes_on)
        self.work["executions"] += schedule.executions
        self.work["again"] += schedule.again
        self.work["waits"] += schedule.waits
        self.work["worked"] += crew.worked - worked
        return ran

    def _started(self) -> Processes | Threads:
        execute, names, name, time = self._execute, self._names, self._name, self._time
        if self._threads:
            return Threads(execute, names, workers=self._workers, name=name, time=time)
        return Processes(
            execute, names, workers=self._workers, timeout=self._timeout, name=name, time=time
        )

    def _chooses_processes(self, count: int) -> bool:
        """Whether worker processes run the next transactions."""
        if self._workers == 1:
            return False
        if self._choice != "adaptive":
            self._why = f"workers={self._workers} and a predictor were asked for"
            return count > 1
        here, there = self._contest.costs.get(False), self._contest.costs.get(True)
        if here is None or count < 2:
            return False
        if here < WORTH:
            self._why = f"a transaction takes {here * 1e6:.0f} us, too short to send"
            return False
        if there is None:
            self._why = f"a transaction takes {here * 1e6:.0f} us, and not many have run"
            return self._asked or self.work["seconds"] > START
        self._why = f"{here * 1e6:.0f} us per transaction here, {there * 1e6:.0f} us there"
        return self._contest.chooses()

    def _note(self, there: bool, seconds: float, count: int) -> None:
        """This many transactions took this long."""
        if not count:
            return
        self.work["seconds"] += seconds
        if not there:
            self.work["worked"] += seconds
        self._contest.note(
            there, seconds, count, counts=not (self._starting if there else self._cold)
        )
        self._cold &= there

    # What it reports

    def explain(self) -> str:
        """Where transactions run, and why."""
        asked = self._workers > 1 and self._choice != "adaptive"
        there = asked or (self._crew is not None and self._contest.faster() is not False)
        kind = "threads" if self._threads else "worker processes"
        where = f"in {self._workers} {kind}" if there else "one after the other"
        said = f"{where}: {self._why}; predictor: {self._predictor!r}"
        if self._memos is not None and self._memos.came:
            said = f"{said}; {self._memos.explain()}"
        if (there or self.work["ahead"]) and self.work["seconds"]:
            said = f"{said}; speed-up so far: {self.work['worked'] / self.work['seconds']:.1f}"
        most = ", ".join(repr(key) for (_, key), _ in self.conflicts.most_common(_NAMED))
        return f"{said}; conflicts: {most}" if most else said

    def close(self) -> None:
        """End the workers."""
        if self._crew is not None:
            self._crew.pool.close()
            self._crew = None
