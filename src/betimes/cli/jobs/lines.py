"""Where a key stands in the text of a job file: the parser does not say, people want to know."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*[\"']?([\w.-]+)[\"']?\s*=")


@dataclass(frozen=True)
class Place:
    """A table of a job file; `number` counts those that are written with double brackets."""

    table: str
    number: int | None = None

    def __str__(self) -> str:
        return f"[{self.table}]" if self.number is None else f"[[{self.table}]] {self.number}"


def line_of(text: str, place: Place, key: str | None) -> int | None:
    """The line of a key, or of its table's header; None if it is written in another way.

    >>> line_of("[a]\\nx = 1\\n[[b]]\\nx = 1\\n[[b]]\\ny = 2\\nx = 3", Place("b", 2), "x")
    7
    """
    here, seen = place.table == "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        found = False
        if header := _HEADER.match(line):
            name = re.sub(r"[\s\"']", "", header[2])
            seen += header[1] == "[[" and name == place.table
            here = name == place.table and place.number in (None, seen)
            found = key is None and here
            found = found or (
                key is not None and name == ".".join(filter(None, (place.table, key)))
            )
        elif here and key is not None and (match := _KEY.match(line)):
            found = match[1] == key or match[1].startswith(f"{key}.")
        if found:
            return number
    return None
