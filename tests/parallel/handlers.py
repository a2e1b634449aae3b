"""What the worker processes of the tests run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def echo(work: bytes) -> bytes:
    return work


def double(work: bytes) -> bytes:
    return work * 2


def pid(work: bytes) -> bytes:
    del work
    return str(os.getpid()).encode()


def nap(work: bytes) -> bytes:
    """Sleep for so many hundredths of a second."""
    time.sleep(int(work) / 100)
    return work


def fail(work: bytes) -> bytes:
    if work == b"bad":
        raise ValueError("this work is bad")
    return work


class Dies:
    """Ends its process the first few times it sees certain work; a folder counts them."""

    def __init__(self, folder: Path, times: int, hang: bool = False) -> None:
        self.folder = folder
        self.times = times
        self.hang = hang

    def __call__(self, work: bytes) -> bytes:
        if work == b"deadly" and len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            if self.hang:
                time.sleep(600)
            os.kill(os.getpid(), signal.SIGKILL)
        return work


class Sum:
    """Keeps state between messages."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, work: bytes) -> bytes:
        self.total += int(work)
        return str(self.total).encode()
