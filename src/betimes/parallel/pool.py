"""A pool of worker processes that may die, hang, and be replaced.

The pool gives each message a number, the *ticket*, and sends it to the worker with the fewest
messages, or to the one that the caller names. Replies come back in any order; `map` sorts them.

**Nobody waits for nobody.** A worker that writes a large reply must not wait for a pool that is
writing to it. So the pool never blocks on one socket: messages wait in an outbox per worker, and
one loop writes where there is room and reads where there is something to read.

**Death.** Workers are new processes, not forks, so only they hold the other ends of their sockets:
when a worker dies, however it dies, its socket closes. It is replaced, and everything that it had
not answered goes to the replacement, in the same order. A worker that does not answer within
`timeout` is killed, and then it is dead like any other. Work that has killed `ATTEMPTS` workers is
an error instead. Workers that keep state between messages need more: `revive` returns messages
that the replacement handles first; they are not answered to the caller.

Replies must therefore depend only on the work, and on what earlier messages told the worker.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

from betimes.model.errors import BetimesError, OptionError
from betimes.parallel.shipping import needs_script, packed
from betimes.parallel.worker import FAILED, HEADER, READY, WORK, runs_script

ATTEMPTS = 3
"""How many workers may die of the same message."""
PATIENCE = 2.0
"""Seconds that a worker has to end by itself when the pool closes."""
_CHUNK = 1 << 18
"""Bytes to read at once."""
_UNASKED = -1
"""The ticket of messages that nobody waits for."""


class WorkerError(BetimesError, RuntimeError):
    """Work failed in a worker process, or ended one too often."""


class Reply(NamedTuple):
    """What a worker made of a message."""

    ticket: int
    worker: int
    data: bytes


class _Sent(NamedTuple):
    ticket: int
    data: bytes
    attempt: int = 1


class _Worker:
    """One process, and the messages on their way to and from it."""

    def __init__(self, number: int, code: bytes, now: float) -> None:
        self.number = number
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs:
            self.process = _start(theirs.fileno(), code)
        self.open: deque[_Sent] = deque()
        """Messages that it has not answered, oldest first."""
        self.since = now
        """When it began to work on the oldest one."""
        self.ready = False
        """Whether it has started."""
        self._outbox = bytearray(HEADER.pack(len(code), WORK) + code)
        self._inbox = bytearray()

    @property
    def has_to_write(self) -> bool:
        return bool(self._outbox)

    def put(self, sent: _Sent, now: float) -> None:
        if not self.open:
            self.since = now
        self.open.append(sent)
        self._outbox += HEADER.pack(len(sent.data), WORK)
        self._outbox += sent.data

    def write(self) -> None:
        """Write as much as there is room for; a worker that is gone is noticed by reading."""
        try:
            while self._outbox:
                count = self.socket.send(memoryview(self._outbox)[:_CHUNK])
                del self._outbox[:count]
        except BlockingIOError:
            pass
        except OSError:
            self._outbox.clear()

    def read(self) -> bool:
        """Read what is there; whether the worker is still alive."""
        try:
            while data := self.socket.recv(_CHUNK):
                self._inbox += data
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def replies(self, now: float) -> Iterator[tuple[_Sent, int, bytes]]:
        """The messages that have been answered, with the kind of answer."""
        while len(self._inbox) >= HEADER.size:
            length, kind = HEADER.unpack_from(self._inbox)
            end = HEADER.size + length
            if len(self._inbox) < end:
                return
            data = bytes(memoryview(self._inbox)[HEADER.size : end])
            del self._inbox[:end]
            self.since = now
            if kind == READY:
                self.ready = True
            else:
                yield self.open.popleft() if self.ready else _Sent(_UNASKED, b""), kind, data

    def late(self, now: float, timeout: float | None) -> bool:
        """Whether one message takes longer than allowed; starting the process does not count."""
        return timeout is not None and self.ready and bool(self.open) and now - self.since > timeout

    def end(self, patience: float = 0.0) -> None:
        """Close the socket, which ends the process; kill it if it does not end in time."""
        self.socket.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Pool:
    """Worker processes that turn bytes into bytes with one function.

    Parameters
    ----------
    handle
        A function (or a callable object) of bytes that returns bytes. It is pickled once per
        worker, so it must be importable there; if it is not, the error names the part.
    workers
        How many processes.
    name
        What users call it, for errors.
    timeout
        Seconds that one message may take, without the time to start the process; None to wait
        for ever.
    revive
        Called with the number of a worker that was replaced; returns the messages from which the
        replacement learns what its predecessor knew.
    """

    def __init__(
        self,
        handle: Callable[[bytes], bytes],
        *,
        workers: int,
        name: str = "the function",
        timeout: float | None = None,
        revive: Callable[[int], Iterable[bytes]] | None = None,
    ) -> None:
        if type(workers) is not int or workers < 1:
            raise OptionError(f"expected workers to be 1 or more, got workers={workers!r}")
        if timeout is not None and not timeout > 0:
            raise OptionError(f"expected timeout to be seconds above 0, got timeout={timeout!r}")
        if runs_script():
            raise WorkerError(
                "a worker process runs the script again to know what it defines, and would start "
                "worker processes; put what starts the run under `if __name__ == '__main__':`"
            )
        self._code = packed(handle, name)
        self._name = name
        self._timeout = timeout
        self._revive = revive
        self._next = 0
        self._come: list[Reply] = []
        """Replies that nobody has received."""
        self._failed: list[str] = []
        """Failures that nobody has been told of."""
        self._stillborn = 0
        """How many workers in a row died before they had started."""
        self.replaced = 0
        """How many workers have died and were replaced."""
        self._workers: list[_Worker] = []
        self._finalizer = weakref.finalize(self, _end, self._workers)
        for number in range(workers):
            self._workers.append(_Worker(number, self._code, time.monotonic()))

    def __len__(self) -> int:
        return len(self._workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The process ids, by worker."""
        return [worker.process.pid for worker in self._workers]

    @property
    def loads(self) -> list[int]:
        """How many messages each worker has not answered."""
        return [len(worker.open) for worker in self._workers]

    @property
    def ready(self) -> list[bool]:
        """Which workers have started, as far as `receive` has noticed."""
        return [worker.ready for worker in self._workers]

    def send(self, work: bytes, to: int | None = None) -> int:
        """Send work to a worker; returns the ticket that its reply will have."""
        if not self._finalizer.alive:
            raise WorkerError(f"the worker processes of {self._name} have been closed")
        workers = self._workers
        worker = min(workers, key=lambda each: len(each.open)) if to is None else workers[to]
        ticket, self._next = self._next, self._next + 1
        worker.put(_Sent(ticket, work), time.monotonic())
        worker.write()
        return ticket

    def receive(self, wait: bool = True) -> list[Reply]:
        """The replies that have come; with `wait`, at least one if any is due."""
        while True:
            due = not (self._come or self._failed) and any(worker.open for worker in self._workers)
            replies = self._turn(wait and due)
            if replies or not (wait and due):
                return replies

    def map(self, works: Iterable[bytes], ahead: int = 4) -> Iterator[bytes]:
        """Replies in the order of the work; each worker has up to `ahead` messages."""
        order: deque[int] = deque()
        done: dict[int, bytes] = {}
        for work in works:
            order.append(self.send(work))
            while len(order) - len(done) >= ahead * len(self._workers):
                done.update((reply.ticket, reply.data) for reply in self.receive())
            while order and order[0] in done:
                yield done.pop(order.popleft())
        while order:
            while order[0] not in done:
                done.update((reply.ticket, reply.data) for reply in self.receive())
            yield done.pop(order.popleft())

    def as_done(self, works: Iterable[bytes]) -> Iterator[Reply]:
        """Replies as they come."""
        for work in works:
            self.send(work)
        while any(worker.open for worker in self._workers):
            yield from self.receive()

    def close(self) -> None:
        """End all workers; what they have not answered is dropped."""
        self._finalizer()

    # The loop

    def _turn(self, wait: bool) -> list[Reply]:
        """Write and read what is possible, and replace workers that are gone."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                writes = selectors.EVENT_WRITE if worker.has_to_write else 0
                selector.register(worker.socket, selectors.EVENT_READ | writes, worker)
            ready = selector.select(self._until_timeout() if wait else 0)
        for key, events in ready:
            if events & selectors.EVENT_WRITE:
                key.data.write()
            if events & selectors.EVENT_READ:
                alive = key.data.read()
                self._take(key.data)
                if not alive:
                    self._replace(key.data, "died")
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.late(now, self._timeout):
                self._replace(worker, f"did not answer within {self._timeout:g} s")
        if self._failed:
            raise WorkerError(self._failed.pop(0))
        replies, self._come = self._come, []
        return replies

    def _until_timeout(self) -> float | None:
        """Seconds until a worker would be too slow; None if none can be."""
        if self._timeout is None:
            return None
        busy = [each.since for each in self._workers if each.open and each.ready]
        if not busy:
            return None
        return max(min(busy) + self._timeout - time.monotonic(), 0.0) + 0.001

    def _take(self, worker: _Worker) -> None:
        """Take note of what a worker has answered."""
        for sent, kind, data in worker.replies(time.monotonic()):
            if kind == FAILED:
                self._failed.append(f"{self._name} failed in a worker process: {data.decode()}")
            elif sent.ticket != _UNASKED:
                self._come.append(Reply(sent.ticket, worker.number, data))

    def _replace(self, worker: _Worker, why: str) -> None:
        """Start another worker, and hand it what this one has not answered."""
        worker.end()
        self.replaced += 1
        again = [sent for sent in worker.open if sent.ticket != _UNASKED]
        self._stillborn = 0 if worker.ready else self._stillborn + 1
        if self._stillborn >= ATTEMPTS:
            raise WorkerError(
                f"{ATTEMPTS} worker processes of {self._name} in a row ended while they started; "
                "what they print says why"
            )
        now = time.monotonic()
        fresh = _Worker(worker.number, self._code, now)
        self._workers[worker.number] = fresh
        for data in () if self._revive is None else self._revive(worker.number):
            fresh.put(_Sent(_UNASKED, data), now)
        poison = bool(again) and worker.ready and again[0].attempt >= ATTEMPTS
        for index, sent in enumerate(again[poison:]):
            fresh.put(sent._replace(attempt=sent.attempt + (index == 0 and worker.ready)), now)
        fresh.write()
        if poison:
            raise WorkerError(
                f"{ATTEMPTS} worker processes of {self._name} in a row {why} while handling the "
                "same work; see what it does with it, or raise timeout"
            )


_MAIN = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = {path!r}
from betimes.parallel.worker import main
main({descriptor}, {script!r})
"""
"""Ctrl-C reaches all processes of a terminal; the one with the pool decides what it means."""


def _start(descriptor: int, code: bytes) -> subprocess.Popen[bytes]:
    """A new interpreter, which imports what this one could import.

    It runs the user's script again, under another name, only if the code was defined there.
    """
    script = getattr(sys.modules["__main__"], "__file__", None) if needs_script(code) else None
    main = _MAIN.format(path=sys.path, descriptor=descriptor, script=script)
    return subprocess.Popen(
        [sys.executable, "-c", main], pass_fds=[descriptor], stdin=subprocess.DEVNULL
    )


def _end(workers: list[Any]) -> None:
    for worker in workers:
        worker.socket.close()
    for worker in workers:
        worker.end(PATIENCE)
    workers.clear()
