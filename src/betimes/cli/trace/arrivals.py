"""Events as people type them: `A0 A2 C1`, separated by blanks, commas or lines; `#` comments.

A token is a type and a whole time: `A12`, or `sensor7@12` if the type ends in a digit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from betimes.model import Event, EventError, OptionError
from betimes.model.event import RESERVED
from betimes.model.times import LAST

_TOKEN = re.compile(r"[^\s,]+")
_PLAIN = re.compile(r"((?:\w[\w.:/-]*)?[^\W\d])([0-9]+)")
_MARKED = re.compile(r"([^@]+)@([0-9]+)")
_AROUND = 40
"""How much of a line is shown on either side of a bad token."""


def read_arrivals(argument: str | None, file: Path | None) -> Iterator[Event]:
    """Events from the argument, from a file, or from stdin."""
    if argument not in (None, "-") and file is not None:
        raise OptionError(
            "expected events from one place, got an argument and --file; leave one out"
        )
    if argument not in (None, "-"):
        return parse(str(argument).splitlines(), "the argument")
    if file is not None and str(file) != "-":
        return _read_file(file)
    if argument is None and file is None and sys.stdin.isatty():
        raise OptionError(
            'expected events, got none; pass them as an argument ("A0 A2 C1"), with --file PATH, '
            "or on stdin"
        )
    return parse(_text(sys.stdin, "stdin"), "stdin")


def parse(lines: Iterable[str], source: str = "the text") -> Iterator[Event]:
    """Read events token by token; the first bad token raises an `EventError` that points at it.

    >>> [(event.type, event.ts) for event in parse(["A0, s1@12  # a comment", "C1"])]
    [('A', 0), ('s1', 12), ('C', 1)]
    """
    for number, line in enumerate(lines, start=1):
        for token in _TOKEN.finditer(line.partition("#")[0]):
            match = _PLAIN.fullmatch(token[0]) or _MARKED.fullmatch(token[0])
            if match is None:
                problem = "a type and a whole time of 0 or more, such as A12 or sensor7@12"
            elif len(match[2]) > 19 or int(match[2]) > LAST:
                problem = f"a time of at most {LAST}"
            elif match[1] in RESERVED:
                problem = "another type: this one is betimes' own"
            else:
                yield Event(match[1], int(match[2]))
                continue
            raise EventError(
                f"bad event {token[0]!r} in {source}, line {number}:\n"
                f"{_pointed_at(line.rstrip(), *token.span())}\nexpected {problem}"
            )


def name(event: Event) -> str:
    """The text of an event, which `parse` can read again.

    >>> name(Event("A", 12)), name(Event("s1", 12))
    ('A12', 's1@12')
    """
    plain = f"{event.type}{event.ts}"
    match = _PLAIN.fullmatch(plain)
    return plain if match and match[1] == event.type else f"{event.type}@{event.ts}"


def _pointed_at(line: str, start: int, stop: int) -> str:
    low, high = max(0, start - _AROUND), min(len(line), stop + _AROUND)
    before, after = "…" if low else "", "…" if high < len(line) else ""
    shown = re.sub(r"\s", " ", line[low:high])
    pointer = " " * (len(before) + start - low) + "^" * (stop - start)
    return f"  {before}{shown}{after}\n  {pointer}"


def _read_file(path: Path) -> Iterator[Event]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from parse(_text(file, str(path)), str(path))
    except OSError as error:
        raise OptionError(
            f"expected --file to name a readable text file, got {str(path)!r}: {error.strerror}"
        ) from None


def _text(lines: Iterable[str], source: str) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise EventError(f"expected UTF-8 text in {source}: {error}") from None
