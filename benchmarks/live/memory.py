"""How much memory processes have, as Linux tells it."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_PROCESSES = Path("/proc")


def resident(process: str = "self") -> float:
    """The memory of a process, in MiB; 0 if it has ended."""
    try:
        pages = (_PROCESSES / process / "statm").read_text().split()[1]
    except OSError:
        if process != "self":
            return 0.0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def workers() -> float:
    """The memory of the largest Python process that Spark has started from here, in MiB."""
    mine = _below(os.getpid())
    pythons = [process for process in mine if b"python" in _command(process)]
    return max((resident(process) for process in pythons), default=0.0)


def _below(process: int) -> list[str]:
    """The processes that this one has started, and those that they have."""
    parents = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        try:
            parents[folder.name] = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended
    found = [str(process)]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _command(process: str) -> bytes:
    try:
        return (_PROCESSES / process / "cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return b""
