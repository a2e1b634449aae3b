"""Durations: `timedelta` or text such as `"150ms"` at the edges, integer microseconds inside."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from betimes.model.errors import OptionError

Duration = timedelta | str | int

_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)\s*")
LONGEST = 2**62


def microseconds(value: Duration, name: str = "duration") -> int:
    """Turn a duration into microseconds.

    >>> microseconds("150ms"), microseconds("1.5 s"), microseconds(timedelta(minutes=1))
    (150000, 1500000, 60000000)
    >>> microseconds(20)
    20
    """
    if isinstance(value, timedelta):
        result = value // timedelta(microseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        result = value
    elif isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        result = round(Fraction(match[1]) * _UNITS[match[2]])
    else:
        hint = f"; say in which unit, as in '{value}s'" if isinstance(value, float) else ""
        raise OptionError(
            f"expected {name} to be a duration such as '150ms', '2s', '1h' "
            f"(units: {', '.join(_UNITS)}), a timedelta or whole microseconds, got {name}={value!r}"
            f"{hint}"
        )
    if not 0 <= result <= LONGEST:
        raise OptionError(
            f"expected {name} to be 0 or longer, at most 146,000 years, got {name}={value!r}"
        )
    return result


def or_off(value: Duration | None, name: str) -> int:
    """A limit in microseconds; `"off"` and None mean that there is none.

    >>> or_off("1ms", "max_skew"), or_off("off", "max_skew") == or_off(None, "max_skew") == LONGEST
    (1000, True)
    """
    return LONGEST if value is None or value == "off" else microseconds(value, name)


def readable(us: float) -> str:
    """Write microseconds with a unit, rounded to four digits.

    >>> readable(0), readable(250), readable(1_500), readable(2_000_000), readable(90_000_000)
    ('0', '250 us', '1.5 ms', '2 s', '1.5 min')
    """
    if us == 0:
        return "0"
    for unit, size in reversed(_UNITS.items()):
        if abs(us) >= size:
            return f"{us / size:.4g} {unit}"
    return f"{us:.2g} us"


def exact(us: int) -> str:
    """Write microseconds without loss, in the largest unit that takes a short number.

    >>> exact(1_800_000_000), exact(1_500), exact(2_000_001), exact(LONGEST)
    ('30 min', '1.5 ms', '2.000001 s', 'no limit')
    """
    if us >= LONGEST:
        return "no limit"
    for unit in ("d", "h", "min"):
        if us and us % _UNITS[unit] == 0:
            return f"{us // _UNITS[unit]} {unit}"
    for unit in ("s", "ms"):
        if us >= _UNITS[unit]:
            return f"{(Decimal(us) / _UNITS[unit]).normalize():f} {unit}"
    return f"{us} us"
