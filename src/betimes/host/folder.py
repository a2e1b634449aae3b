"""Folders on this machine that belong to a run: of a checkpoint, and of a sink.

A run holds a lock on a file in each of them, which the system releases when the process ends,
however it ends. So a folder has one run at a time.

A sink also has an *owner*: the checkpoint that accounts for the batches in it. The file with the
lock holds its id, which a checkpoint gets when it is new and keeps. A batch in a sink replaces the
one of the same number, so a second checkpoint would mix its batches with those of the first.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO

from betimes.engine import CheckpointError
from betimes.model.errors import BusyError, OptionError

_NAME = re.compile("[0-9a-f]{32}")
"""The name of the file of a volume."""


class LockedFolder:
    """A folder that one run at a time may hold."""

    what = "folder"
    lock_file = "lock"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None

    def acquire(self) -> None:
        """Take the folder, or say why not."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / self.lock_file).open("a+b")
        except OSError as error:
            raise CheckpointError(
                f"the {self.what} at {self.path} cannot be written: {error.strerror or error}; "
                f"check what is there and its permissions, or choose another {self.what}"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise BusyError(
                f"another run is using the {self.what} at {self.path}; wait for it, stop it, or "
                f"choose another {self.what}"
            ) from None
        self._lock = lock

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


class SinkFolder(LockedFolder):
    """The folder of a sink, with a folder `batch=N` for each batch."""

    what = "sink"
    lock_file = "_betimes-owner"
    """Readers of tables skip names that begin like this."""

    def batches(self) -> Iterator[tuple[int, Path]]:
        """The batches that are there, with their numbers."""
        return batches_in(self.path)

    def claim(self, owner: str, *, known: bool) -> None:
        """Make it the sink of a checkpoint, or say why not; `known`: the checkpoint is not new."""
        if self._lock is None:
            raise BusyError(f"the sink at {self.path} is not locked")
        self._lock.seek(0)
        found = self._lock.read().decode(errors="replace").strip()
        count = len(list(self.batches()))
        if count and found != owner and (found or not known):
            raise OptionError(
                f"the sink at {self.path} belongs to another job: expected an empty folder, or the "
                f"batches of this checkpoint, found the changes of {count} batches that it knows "
                "nothing about; choose another path, or empty the folder (betimes run --fresh does)"
            )
        if found != owner:
            self._lock.truncate(0)
            self._lock.write(f"{owner}\n".encode())
            self._lock.flush()


def batches_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """The folders `batch=N` in a folder, with their numbers."""
    for path in folder.glob("batch=*"):
        number = path.name.partition("=")[2]
        if number.isdecimal() and path.is_dir():
            yield int(number), path


class CheckpointFolder(LockedFolder):
    """The folder of a checkpoint; its files are there completely or not at all.

    The volumes of a checkpoint (`betimes.model.volumes`) have a folder of their own. They are
    written before the checkpoint that refers to them, and removed after one that does not.
    """

    what = "checkpoint"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._volumes = path / "volumes"

    def volumes(self) -> set[bytes]:
        """The names of the volumes that are there."""
        names = [file.name for file in self._volumes.glob("[0-9a-f]*")]
        return {bytes.fromhex(name) for name in names if _NAME.fullmatch(name)}

    def volume(self, name: bytes) -> bytes | None:
        """A volume; None if it is not there."""
        return self.read(f"{self._volumes.name}/{name.hex()}")

    def write_volumes(self, volumes: Mapping[bytes, bytes]) -> None:
        """Add volumes."""
        if volumes:
            self._volumes.mkdir(exist_ok=True)
        for name, volume in volumes.items():
            self.write(f"{self._volumes.name}/{name.hex()}", volume)

    def keep_volumes(self, names: Collection[bytes]) -> None:
        """Remove all other volumes, and what a crash has left of them."""
        kept = {name.hex() for name in names}
        for file in self._volumes.glob("*"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

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
