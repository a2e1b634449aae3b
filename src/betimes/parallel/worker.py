"""What runs in a worker process: take a message, handle it, reply, until the other end is closed.

A worker knows nothing about the pool except its socket. If the pool's process dies, even by
SIGKILL, the socket closes and the worker ends; so no worker outlives the run that started it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import traceback

HEADER = struct.Struct("!QB")
"""In front of each message: its length, and what it is."""
WORK, READY, DONE, FAILED = range(4)


def serve(connection: socket.socket, code: bytes) -> None:
    """Handle messages until the other end closes the connection."""
    # Ctrl-C reaches all processes of a terminal; the one with the pool decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with connection:
        try:
            handle = pickle.loads(code)
        except Exception as error:  # noqa: BLE001 - imports of user code may raise anything
            message = f"cannot be loaded in a worker process: {type(error).__name__}: {error}"
            _send(connection, FAILED, message.encode())
            return
        _send(connection, READY, b"")
        while (work := _receive(connection)) is not None:
            try:
                kind, reply = DONE, handle(work)
            except Exception:  # noqa: BLE001 - whatever it is, the pool raises it again
                kind, reply = FAILED, traceback.format_exc().encode()
            _send(connection, kind, reply)


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
