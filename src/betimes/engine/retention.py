"""Retention: how much of what was handled is kept, so that late events can be repaired.

By default history has a budget of memory, so a short stream is repaired completely and a long one
is bounded; a duration says it in stream time instead. With a budget, the oldest history of all
detectors goes first, but nothing younger than `LEAST` behind the slack: a stream too fast for the
budget still has that much time for late events, and takes the memory that this needs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from betimes.model import Duration, OptionError, microseconds
from betimes.model.duration import exact

LEAST = 10_000_000
"""Microseconds of history, besides the slack, that are kept whatever they take."""

_UNITS = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(kB|MB|GB)\s*")


class Retention(NamedTuple):
    """How much history is kept."""

    least: int
    """Microseconds, besides the slack."""
    budget: int | None = None
    """Bytes that may be used for more; None if there is no more."""

    @classmethod
    def parse(cls, value: Duration) -> Retention:
        """From a size or a duration.

        >>> Retention.parse("32 MB"), Retention.parse("2s")
        (Retention(least=10000000, budget=32000000), Retention(least=2000000, budget=None))
        """
        if isinstance(value, str) and (match := _TEXT.fullmatch(value)):
            return cls(LEAST, round(float(match[1]) * _UNITS[match[2]]))
        try:
            return cls(microseconds(value, "retention"))
        except OptionError as error:
            raise OptionError(f"{error}; or a size such as '32 MB' (units: kB, MB, GB)") from None

    @property
    def value(self) -> int | str:
        """The same value for the same retention, however it was written."""
        return self.least if self.budget is None else self.spelled()

    @property
    def kind(self) -> str:
        """What a saved state depends on; how large a budget is may change."""
        return exact(self.least) if self.budget is None else "as memory allows"

    def spelled(self) -> str:
        """The way you would write it."""
        if self.budget is None:
            return exact(self.least)
        unit = next(u for u, size in reversed(_UNITS.items()) if self.budget >= size or u == "kB")
        return f"{self.budget / _UNITS[unit]:.12g} {unit}"
