"""Worker threads, for interpreters without the lock: work and replies are handed over as they are.

They are used as a `Pool` is. Threads cannot be ended, so there is no timeout, and none of them dies
before the process does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from betimes.parallel.pool import WorkerError


def free_threaded() -> bool:
    """Whether threads of this interpreter run Python at the same time."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


class Handed(NamedTuple):
    """What a thread made of a message."""

    ticket: int
    worker: int
    data: Any
    error: Exception | None


class ThreadPool:
    """Worker threads, one for each function."""

    def __init__(self, handles: Sequence[Callable[[Any], Any]], name: str) -> None:
        self._name = name
        self._inboxes: list[SimpleQueue[tuple[int, Any] | None]] = [SimpleQueue() for _ in handles]
        self._done: SimpleQueue[Handed] = SimpleQueue()
        self._next = 0
        self.loads = [0] * len(handles)
        """How many messages each worker has not answered."""
        self.ready = [True] * len(handles)
        """Threads start at once."""
        self._threads = [
            Thread(target=self._serve, args=each, daemon=True) for each in enumerate(handles)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._threads)

    def send(self, work: Any, to: int) -> int:
        """Send work to a worker; returns the ticket that its reply will have."""
        ticket, self._next = self._next, self._next + 1
        self.loads[to] += 1
        self._inboxes[to].put((ticket, work))
        return ticket

    def receive(self, wait: bool = True) -> list[Handed]:
        """The replies that have come; with `wait`, at least one if any is due."""
        replies: list[Handed] = []
        while any(self.loads):
            try:
                reply = self._done.get(block=wait and not replies)
            except Empty:
                break
            self.loads[reply.worker] -= 1
            if reply.error is not None:
                raise WorkerError(f"{self._name} failed in a thread") from reply.error
            replies.append(reply)
        return replies

    def close(self) -> None:
        """End all threads, as soon as they have done what they are doing."""
        for inbox in self._inboxes:
            inbox.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, number: int, handle: Callable[[Any], Any]) -> None:
        while (message := self._inboxes[number].get()) is not None:
            ticket, work = message
            try:
                data, failed = handle(work), None
            except Exception as error:  # noqa: BLE001 - whatever it is, the pool raises it again
                data, failed = None, error
            self._done.put(Handed(ticket, number, data, failed))
