"""The errors of betimes. Each is a `BetimesError` and also a builtin error."""

from __future__ import annotations


class BetimesError(Exception):
    """Root of all errors raised by betimes."""


class EventError(BetimesError, ValueError):
    """An event or a column of events cannot be used. Says which one, why, and what was expected."""


class OptionError(BetimesError, ValueError):
    """An option has an invalid value. Says which option, which value, and what is allowed."""


class StreamEndedError(BetimesError, RuntimeError):
    """Events were fed after `finish()`."""


class BusyError(BetimesError, RuntimeError):
    """Something is in use: an engine by another call, a checkpoint or a sink by another run."""


class MissingExtraError(BetimesError, ModuleNotFoundError):
    """A package is not installed that an extra of betimes brings."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(
            f"{package} is not installed, which betimes.{extra} needs; install it with: "
            f"pip install 'betimes[{extra}]'",
            name=package,
        )
