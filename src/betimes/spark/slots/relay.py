"""Live engines: each in one worker process, within reach of its siblings.

Spark gives a task to any free Python worker, so the task of a slot often misses the worker that has
the slot's engine. To move the engine or to rebuild it would cost as much as its state is large.
Instead, the batch goes to the engine: every worker that has engines answers on a socket in a folder
that only its user can enter, and a link there says which worker has which engine.

The token decides here as everywhere. An engine that has not been fed exactly what the state store
says does not answer, and neither does a worker that has died. The worker that asked then builds the
engine itself and owns it from then on. Only data goes over the socket.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
import threading
from collections import OrderedDict
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
import pyarrow as pa

from betimes.host.log import ALONE, Around, Entry, Fed, Head, Logged, Rebase
from betimes.spark.intake.streams import as_stream

MOST_ALIVE = 64
"""The most engines that a worker keeps; the one that was fed longest ago goes first."""

PATIENCE = 600.0
"""Seconds to wait for a sibling; longer than any batch should take."""

_LENGTH = struct.Struct("!Q")
_DONE = b"+"


class Answer(msgspec.Struct):
    """What the engine made of the batch."""

    changes: bytes
    head: Head
    base: Rebase | None


class Request(msgspec.Struct):
    """A batch for an engine that another worker has."""

    key: str
    head: Head
    entry: Entry
    around: Around


class Alive:
    """The engines of this worker process, and the way to those of its siblings."""

    def __init__(self) -> None:
        self._engines: OrderedDict[str, Logged] = OrderedDict()
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._pid = 0

    def feed(self, key: str, head: Head, entry: Entry, around: Around = ALONE) -> Fed | None:
        """Feed a batch to the engine, wherever it lives; None if it lives nowhere."""
        live = self._take(key, head.token)
        if live is not None:
            return self.feed_own(key, live, head, entry, around)
        return self._ask(Request(key, head, entry, around))

    def feed_own(
        self, key: str, live: Logged, head: Head, entry: Entry, around: Around = ALONE
    ) -> Fed:
        """Feed an engine and keep it. After a failure it is not kept: it may be in any state."""
        fed = live.feed(head, entry, around)
        with self._lock:
            self._engines[key] = live
            while len(self._engines) > MOST_ALIVE:
                self._engines.popitem(last=False)
        return fed

    def announce(self, key: str) -> None:
        """Tell siblings that this worker has an engine."""
        self._serve()
        if self._folder is None:
            return
        name = self._folder / f"{os.getpid()}-link"
        with suppress(OSError):
            # Siblings that do not hear of it build the engine themselves.
            name.unlink(missing_ok=True)
            name.symlink_to(str(os.getpid()))
            name.replace(self._folder / _short(key))

    def _take(self, key: str, token: bytes) -> Logged | None:
        with self._lock:
            live = self._engines.pop(key, None)
        return live if live is not None and live.token == token else None

    def _ask(self, request: Request) -> Fed | None:
        try:
            folder = _folder()
            owner = os.readlink(folder / _short(request.key))
            if owner == str(os.getpid()):
                return None
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(PATIENCE)
                line.connect(str(folder / owner))
                _send(line, msgspec.msgpack.encode(request))
                answer = _receive(line)
        except OSError:
            return None
        if not answer.startswith(_DONE):
            return None
        found = msgspec.msgpack.decode(answer[1:], type=Answer)
        changes = pa.ipc.open_stream(found.changes).read_all()
        return Fed(changes, found.head, found.base)

    def _serve(self) -> None:
        """Start to answer, once per process."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        try:
            self._folder = _folder()
            address = self._folder / str(self._pid)
            address.unlink(missing_ok=True)
            door = socket.socket(socket.AF_UNIX)
            door.bind(str(address))
            door.listen()
        except OSError:
            # Without a place for a socket, each worker builds the engines it needs.
            self._folder = None
            return
        threading.Thread(target=self._answer_all, args=(door,), daemon=True).start()

    def _answer_all(self, door: socket.socket) -> None:
        while True:
            line, _ = door.accept()
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line:
            try:
                line.settimeout(PATIENCE)
                request = msgspec.msgpack.decode(_receive(line), type=Request)
                live = self._take(request.key, request.head.token)
                if live is None:
                    _send(line, b"")
                    return
                fed = self.feed_own(request.key, live, request.head, request.entry, request.around)
                answer = Answer(as_stream(fed.changes), fed.head, fed.base)
                _send(line, _DONE + msgspec.msgpack.encode(answer))
            except Exception:  # noqa: BLE001 - the worker that asked tries it itself, and reports why
                return


def key_of(identity: str, slot: int) -> str:
    """The name of an engine among workers."""
    return f"{slot} {identity}"


def _short(key: str) -> str:
    return blake2b(key.encode(), digest_size=12).hexdigest()


def _folder() -> Path:
    """Where the workers of one executor meet: those that were forked from one process."""
    folder = Path(tempfile.gettempdir(), f"betimes-{os.getuid()}-{os.getppid()}")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.stat().st_uid != os.getuid() or folder.is_symlink():
            raise PermissionError(f"{folder} belongs to another user") from None
    else:
        _clear_up(folder)
    return folder


def _clear_up(folder: Path) -> None:
    """Remove the folders of executors that are gone: killed workers cannot do it."""
    for other in folder.parent.glob(f"betimes-{os.getuid()}-*"):
        number = other.name.rpartition("-")[2]
        if number.isdecimal() and other != folder and not other.is_symlink() and _gone(int(number)):
            shutil.rmtree(other, ignore_errors=True)


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _send(line: socket.socket, data: bytes) -> None:
    line.sendall(_LENGTH.pack(len(data)))
    line.sendall(data)


def _receive(line: socket.socket) -> bytes:
    with line.makefile("rb") as file:
        head = file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise ConnectionError("the sibling is gone")
        (length,) = _LENGTH.unpack(head)
        data = file.read(length)
    if len(data) < length:
        raise ConnectionError("the sibling is gone")
    return data
