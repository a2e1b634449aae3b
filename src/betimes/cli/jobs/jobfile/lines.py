"""Line numbers of keys in a job file, for error messages: the TOML parser does not keep them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*[\"']?([\w.-]+)[\"']?\s*=")


@dataclass(frozen=True)
class Heading:
    """The heading of a table; `number` counts tables written with double brackets.

    The empty name is the top of the file, above all tables.
    """

    table: str
    number: int | None = None

    def __str__(self) -> str:
        if not self.table:
            return ""
        return f"[{self.table}]" if self.number is None else f"[[{self.table}]] {self.number}"


def line_of(text: str, heading: Heading, key: str | None) -> int | None:
    """The line of a key, or of its table's heading; None if it is written in another form.

    >>> line_of("[a]\\nx = 1\\n[[b]]\\nx = 1\\n[[b]]\\ny = 2\\nx = 3", Heading("b", 2), "x")
    7
    """
    here, seen = heading.table == "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        found = False
        if header := _HEADER.match(line):
            name = re.sub(r"[\s\"']", "", header[2])
            seen += header[1] == "[[" and name == heading.table
            here = name == heading.table and heading.number in (None, seen)
            found = key is None and here
            found = found or (
                key is not None and name == ".".join(filter(None, (heading.table, key)))
            )
        elif here and key is not None and (match := _KEY.match(line)):
            found = match[1] == key or match[1].startswith(f"{key}.")
        if found:
            return number
    return None
