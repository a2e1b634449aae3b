"""What runs in a worker process: take a message, handle it, reply, until the other end is closed.

A worker knows nothing about the pool except its socket. If the pool's process dies, even by
SIGKILL, the socket closes and the worker ends; so no worker outlives the run that started it.
"""

from __future__ import annotations

import os
import pickle
import runpy
import socket
import struct
import sys
import traceback
from types import ModuleType

HEADER = struct.Struct("!QB")
"""In front of each message: its length, and what it is."""
WORK, READY, DONE, FAILED = range(4)

_running: list[str] = []
"""The user's script, while a worker runs it."""


def main(descriptor: int, script: str | None) -> None:
    """Serve a socket that was inherited; the first message is the code."""
    with socket.socket(fileno=descriptor) as connection:
        code = _receive(connection)
        if code is not None:
            _serve(connection, code, script)


def _serve(connection: socket.socket, code: bytes, script: str | None) -> None:
    """Handle messages until the other end closes the connection."""
    try:
        if script is not None:
            _run_script(script)
        handle = pickle.loads(code)
    except Exception:  # noqa: BLE001 - imports of user code may raise anything
        _send(connection, FAILED, traceback.format_exc().encode())
        return
    _send(connection, READY, b"")
    while (work := _receive(connection)) is not None:
        try:
            kind, reply = DONE, handle(work)
        except Exception:  # noqa: BLE001 - whatever it is, the pool raises it again
            kind, reply = FAILED, traceback.format_exc().encode()
        _send(connection, kind, reply)


def _run_script(path: str) -> None:
    """Make what a script defines importable as `__main__`, without what it does when it is run."""
    module = ModuleType("__main__")
    _running.append(path)
    module.__dict__.update(runpy.run_path(path, run_name="__mp_main__"))
    _running.clear()
    module.__name__ = "__main__"
    sys.modules["__main__"] = module


def runs_script() -> bool:
    """Whether this is a worker that is running the user's script to know what it defines."""
    return bool(_running)


def _send(connection: socket.socket, kind: int, data: bytes) -> None:
    try:
        connection.sendall(HEADER.pack(len(data), kind) + data)
    except OSError:
        os._exit(0)  # nobody listens any more


def _receive(connection: socket.socket) -> bytes | None:
    header = _exactly(connection, HEADER.size)
    if header is None:
        return None
    length, _ = HEADER.unpack(header)
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes | None:
    """This many bytes; None if the other end has closed the connection."""
    data = bytearray(length)
    view, had = memoryview(data), 0
    while had < length:
        try:
            count = connection.recv_into(view[had:])
        except OSError:
            return None
        if not count:
            return None
        had += count
    return bytes(data)
