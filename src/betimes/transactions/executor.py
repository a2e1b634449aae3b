"""Where transactions run: here, or in worker processes if that pays.

Which of the two is faster depends on the operator, on the conflicts and on the machine, so it is
measured, in seconds per transaction: whichever was faster goes on, and the other one is tried now
and then, more and more rarely as long as it loses. A trial is short: if worker processes turn out
to be slower, what is left is run here. Short transactions are never sent: that would take longer
than running them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from betimes.model.errors import OptionError
from betimes.parallel import ShippingError, needs_script, packed
from betimes.transactions.book import Book, Entry
from betimes.transactions.effects import Key
from betimes.transactions.predictors import Choice, predictor_of
from betimes.transactions.processes import Processes
from betimes.transactions.serial import run
from betimes.transactions.tracked import Execute

Workers = int | str
WORTH = 200e-6
"""Seconds. Shorter transactions run here."""
START = 2.0
"""Seconds of work that must have been done before processes are started without being asked for."""
TRIAL = 64
"""Transactions after which it is known how fast they are."""
_PAUSES = 2048, 1 << 20
"""Transactions between two trials of what was slower: at first, and at most."""
_CONFLICTS = 1024
"""Keys that conflict and are remembered, at most."""
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
    if workers > 1:
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
    ) -> None:
        self._execute = execute
        self._names = names
        self._choice = predictor
        self._predictor = predictor_of(predictor, execute)
        self._timeout = timeout
        self._name = name
        self._time = time
        self._processes: Processes | None = None
        self._costs: dict[bool, float] = {}
        """Seconds per transaction, here (False) and there (True)."""
        self._since_trial, self._pause = 0, _PAUSES[0]
        self._why = "no transaction has run yet"
        self._asked = workers != "auto"
        self._workers = self._count(workers, cores)
        self.conflicts: Counter[Key] = Counter()
        """How often each key was the reason that a transaction had to run again."""
        self.work = dict.fromkeys(("executions", "aborts", "seconds", "worked"), 0.0)
        """What has been done; `worked` is seconds of executing, in all processes."""

    def _count(self, workers: Workers, cores: int | None) -> int:
        if isinstance(workers, int):
            self._why = f"workers={workers}"
            return workers
        try:
            code = packed(self._execute, "execute")
        except ShippingError as error:
            self._why = str(error)
            return 1
        if needs_script(code):
            # Workers would have to run the script, and nobody has asked for that.
            self._why = "execute is defined in the script itself; say workers=2 if you want them"
            return 1
        if cores is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        if cores == 1:
            self._why = "there is one core for it (on Spark, see spark.task.cpus)"
        return cores

    def run(self, key: Any, book: Book) -> list[Entry]:
        """Run everything that waits in a book; all that ran, in order."""
        ran: dict[Any, Entry] = {}
        while book.first_waiting() is not None:
            began = self._time()
            there = self._chooses_processes(len(book.waiting))
            entries = self._run_there(key, book) if there else self._run_here(book)
            self._note(there, self._time() - began, len(entries))
            ran.update((entry.place, entry) for entry in entries)
        self.work["aborts"] += book.aborts
        book.aborts = 0
        if book.conflicts:
            self.conflicts.update(book.conflicts)
            book.conflicts.clear()
            if len(self.conflicts) > _CONFLICTS:
                self.conflicts = Counter(dict(self.conflicts.most_common(_CONFLICTS // 2)))
        return [ran[place] for place in sorted(ran)]

    def _run_here(self, book: Book) -> list[Entry]:
        most = None if self._workers == 1 else TRIAL
        entries = list(run(book, self._execute, self._names, most))
        self.work["executions"] += len(entries)
        return entries

    def _run_there(self, key: Any, book: Book) -> list[Entry]:
        processes = self._processes
        if processes is None:
            processes = self._processes = Processes(
                self._execute, self._names, workers=self._workers, timeout=self._timeout,
                name=self._name, time=self._time,
            )  # fmt: skip
        began, worked = self._time(), processes.worked

        def goes_on(ran: int) -> bool:
            if self._choice != "adaptive" or ran < TRIAL:
                return True
            return (self._time() - began) / ran < self._costs[False]

        schedule, ran = processes.run(key, book, self._predictor, goes_on)
        self.work["executions"] += schedule.executions
        self.work["worked"] += processes.worked - worked
        return ran

    def _chooses_processes(self, count: int) -> bool:
        """Whether worker processes run the next transactions."""
        if self._workers == 1:
            return False
        if self._choice != "adaptive":
            self._why = f"workers={self._workers} and a predictor were asked for"
            return count > 1
        here, there = self._costs.get(False), self._costs.get(True)
        if here is None or count < 2:
            return False
        if here < WORTH:
            self._why = f"a transaction takes {here * 1e6:.0f} us, too short to send"
            return False
        if there is None:
            self._why = f"a transaction takes {here * 1e6:.0f} us, and not many have run"
            return self._asked or self.work["seconds"] > START
        self._why = f"{here * 1e6:.0f} us per transaction here, {there * 1e6:.0f} us there"
        return (there < here) is not self._tries_the_other()

    def _tries_the_other(self) -> bool:
        """Whether it is time to see how the one that was slower does now."""
        if self._since_trial < self._pause:
            return False
        self._since_trial, self._pause = 0, min(2 * self._pause, _PAUSES[1])
        return True

    def _note(self, there: bool, seconds: float, count: int) -> None:
        """This many transactions took this long."""
        if not count:
            return
        self.work["seconds"] += seconds
        self._since_trial += count
        if not there:
            self.work["worked"] += seconds
        elif self._processes is not None and not all(self._processes.pool.ready):
            return  # processes that are starting say nothing about their speed
        was, cost, known = self._faster(), seconds / count, self._costs.get(there)
        weight = min(count / (2 * TRIAL), 1.0)
        self._costs[there] = cost if known is None else known + weight * (cost - known)
        if self._faster() is not was:
            self._since_trial, self._pause = 0, _PAUSES[0]

    def _faster(self) -> bool | None:
        """Whether worker processes are faster, if that is known."""
        here, there = self._costs.get(False), self._costs.get(True)
        return None if here is None or there is None else there < here

    # What it reports

    def explain(self) -> str:
        """Where transactions run, and why."""
        there = self._processes is not None and self._faster() is not False
        where = f"in {self._workers} worker processes" if there else "one after the other"
        said = f"{where}: {self._why}; predictor: {self._predictor!r}"
        most = ", ".join(repr(key) for (_, key), _ in self.conflicts.most_common(_NAMED))
        return f"{said}; conflicts: {most}" if most else said

    def close(self) -> None:
        """End the worker processes."""
        if self._processes is not None:
            self._processes.pool.close()
            self._processes = None
