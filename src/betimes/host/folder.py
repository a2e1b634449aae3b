"""The folder of a checkpoint on this machine: one run at a time, whole files only.

A run holds a lock on a file in the folder, which the system releases when the process ends, however
it ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from betimes.engine import CheckpointError
from betimes.model.errors import BusyError


class CheckpointFolder:
    """A folder that one run at a time may hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None

    def acquire(self) -> None:
        """Take the folder, or say why not."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("ab")
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint at {self.path} cannot be written: {error.strerror or error}; "
                "check what is there and its permissions, or choose another checkpoint"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise BusyError(
                f"another run is using the checkpoint at {self.path}; wait for it, stop it, or "
                "choose another checkpoint"
            ) from None
        self._lock = lock

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        file = self.path / name
        return file.read_bytes() if file.exists() else None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file as a whole."""
        try:
            put(self.path / name, content)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint at {self.path} cannot be written: {error.strerror or error}; free "
                "space, or choose another checkpoint"
            ) from error


def put(file: Path, content: bytes) -> None:
    """Write a file so that it is there completely or not at all, even after a crash."""
    draft = file.with_name(f".{file.name}.new")
    with draft.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)
