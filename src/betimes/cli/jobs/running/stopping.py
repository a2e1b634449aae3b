"""Ctrl-C and SIGTERM stop a run after the current batch; a second Ctrl-C stops it at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType

from betimes.cli.speaking import say

HEARD = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a stop was requested, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._wanted = Event()

    def __bool__(self) -> bool:
        return self._wanted.is_set()

    @property
    def exit_code(self) -> int:
        """What shells expect: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signal or 0)

    def listen(self) -> None:
        """Handle the signals, even if something else has installed its handlers since."""
        if current_thread() is main_thread():  # Python allows it only there
            for number in HEARD:
                signal.signal(number, self.ask)

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        del frame
        if self and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        self._wanted.set()
        say(f"{self.signal.name}: stopping after this batch (press Ctrl-C again to stop at once)")

    def wait(self, seconds: float) -> bool:
        """Wait, or return early if a stop is requested; returns whether it was."""
        return self._wanted.wait(seconds)


@contextmanager
def hearing_signals() -> Iterator[Stop]:
    """Turn signals into requests to stop inside the `with` block."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in HEARD}
    stop.listen()
    try:
        yield stop
    finally:
        if current_thread() is main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
