"""Ctrl-C and SIGTERM end a run between two batches; a second Ctrl-C ends it at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType

from betimes.cli.speaking import say

HEARD = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether somebody wants the run to end, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._wanted = Event()

    def __bool__(self) -> bool:
        return self._wanted.is_set()

    @property
    def exit_code(self) -> int:
        """As shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signal or 0)

    def listen(self) -> None:
        """Hear signals, also if somebody else has come to hear them meanwhile."""
        if current_thread() is main_thread():  # only there can they be heard
            for number in HEARD:
                signal.signal(number, self.ask)

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        del frame
        if self and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        self._wanted.set()
        say(f"{self.signal.name}: stopping after this batch (Ctrl-C once more: at once)")

    def wait(self, seconds: float) -> bool:
        """Wait, unless a stop is wanted; whether it is."""
        return self._wanted.wait(seconds)


@contextmanager
def hearing_signals() -> Iterator[Stop]:
    """Signals ask for a stop as long as this lasts."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in HEARD}
    stop.listen()
    try:
        yield stop
    finally:
        if current_thread() is main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
