"""How much memory the workers of Spark have, as Linux tells it."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")


def workers() -> int:
    """The bytes of the largest Python process that Spark has started from here."""
    mine = _below(os.getpid())
    return max((_resident(process) for process in mine if _is_python(process)), default=0)


def _below(process: int) -> list[str]:
    """The processes that this one has started, and those that they have."""
    parents = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        told = _read(folder.name, "stat")
        if told:
            parents[folder.name] = told.rpartition(b")")[2].split()[1].decode()
    found = [str(process)]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _is_python(process: str) -> bool:
    return b"python" in _read(process, "cmdline").partition(b"\0")[0]


def _resident(process: str) -> int:
    pages = _read(process, "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def _read(process: str, what: str) -> bytes:
    """What Linux tells about a process; nothing if it has ended."""
    try:
        return (_PROCESSES / process / what).read_bytes()
    except OSError:
        return b""
