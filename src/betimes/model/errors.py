"""What can go wrong, by name. Every error of betimes is a `BetimesError` and a builtin error."""

from __future__ import annotations


class BetimesError(Exception):
    """Root of all errors raised by betimes."""


class EventError(BetimesError, ValueError):
    """An event or a column of events cannot be used: which one, why, and what was expected."""


class OptionError(BetimesError, ValueError):
    """An option has a value that makes no sense: which one, what came, what is allowed."""


class StreamEndedError(BetimesError, RuntimeError):
    """Something was fed after `finish()`."""


class BusyError(BetimesError, RuntimeError):
    """Another run works on the same checkpoint."""
