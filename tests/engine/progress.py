"""How far a long search has got, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")
EVERY = 10.0
"""Seconds between lines, where no bar can be drawn."""


def shown(things: Sequence[T], name: str) -> Iterator[T]:
    """Each of the things, with a bar on a terminal, and with a line now and then elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        yield from track(things, name, console=console)
        return
    due = time.monotonic() + EVERY
    for number, thing in enumerate(things, start=1):
        yield thing
        if time.monotonic() >= due:
            print(f"{number:,} of {len(things):,} {name}", file=sys.stderr, flush=True)
            due += EVERY
