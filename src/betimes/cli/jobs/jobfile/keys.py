"""The values of a job file, key by key: which are valid, and what to say about the others.

A `Shape` describes a table of a job file: the name of each key, with a `Key`. `read_table` checks a
table against its shape. It collects every problem instead of stopping at the first, so that you can
repair a job file in one go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from betimes.cli.jobs.jobfile.lines import Heading, line_of
from betimes.engine import Zone
from betimes.engine.retention import Retention
from betimes.engine.snapshots.spacing import parse_snapshots
from betimes.model import OptionError, microseconds
from betimes.model.hints import did_you_mean, nearest


class JobError(OptionError):
    """A job file that cannot run: every problem, where it is, and what to do about it."""


class WrongValueError(Exception):
    """The value of a key is not valid; the message says which values are."""

    def __init__(self, valid: str, hint: str = "") -> None:
        super().__init__(valid)
        self.hint = hint


Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class Key:
    """One key of a table: how to read its value, and the default."""

    read: Reader
    default: Any = None
    required: bool = False


Shape = Mapping[str, Key]


@dataclass
class Problems:
    """The problems found in a job file so far."""

    file: str
    text: str
    found: list[tuple[int, str]] = field(default_factory=list)
    """With the line of each; those without one come last."""
    tables: set[Heading] = field(default_factory=set)
    """The tables that have problems."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """In which table a key belongs."""

    def add(self, heading: Heading, key: str | None, message: str) -> None:
        """Add a problem, with its line number if the key is in the file."""
        number = line_of(self.text, heading, key)
        line = f"line {number}, " if number else ""
        where = " ".join(filter(None, (str(heading), key)))
        self.found.append((number or sys.maxsize, f"{line}{where}: {message}"))
        self.tables.add(heading)

    def are_in(self, *tables: str) -> bool:
        """Whether one of these tables has problems, so that others would only follow from them."""
        return any(heading.table in tables for heading in self.tables)

    def stop_if_any(self) -> None:
        """Tell all of them, in the order of their lines."""
        if not self.found:
            return
        count = f"{len(self.found)} problems" if len(self.found) > 1 else "1 problem"
        ordered = sorted(self.found, key=itemgetter(0))
        lines = (problem.replace("\n", "\n    ") for _, problem in ordered)
        raise JobError(f"{count} in {self.file}:\n" + "\n".join(f"  {line}" for line in lines))


def read_table(table: object, heading: Heading, shape: Shape, problems: Problems) -> dict[str, Any]:
    """The values of a table, with defaults for keys that are missing or not valid."""
    if not isinstance(table, dict):
        problems.add(heading, None, f"expected a table of keys and values, got {table!r}")
        table = {}
    for name in table:
        if name not in shape:
            home = problems.homes.get(name)
            hint = nearest(name, shape) if home is None else f"; it is a key of [{home}]"
            problems.add(heading, name, f"unknown key{hint}")
    return {name: _value(table, heading, name, key, problems) for name, key in shape.items()}


def _value(table: dict[str, Any], heading: Heading, name: str, key: Key, problems: Problems) -> Any:
    if name not in table:
        if key.required:
            problems.add(heading, None, f"the key {name!r} is missing")
        return key.default
    try:
        return key.read(table[name])
    except WrongValueError as error:
        problems.add(heading, name, f"expected {error}, got {table[name]!r}{error.hint}")
        return key.default


# How values are read


def text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise WrongValueError("a string")


def choice(*allowed: str) -> Reader:
    def read(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise WrongValueError(f"one of {', '.join(allowed)}", did_you_mean(value, allowed))

    return read


def whole(least: int, most: int | None = None) -> Reader:
    def read(value: object) -> int:
        good = isinstance(value, int) and not isinstance(value, bool)
        if good and least <= value and (most is None or value <= most):  # type: ignore[operator]
            return int(value)  # type: ignore[call-overload,no-any-return]
        limit = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise WrongValueError(f"a whole number {limit}")

    return read


def number(least: float, most: float | None = None) -> Reader:
    def read(value: object) -> float:
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and least <= value < float("inf")
            and (most is None or value <= most)
        ):
            return float(value)
        limit = f"of {least:g} or more" if most is None else f"from {least:g} to {most:g}"
        raise WrongValueError(f"a number {limit}")

    return read


def parsed_by(parse: Callable[[Any], object], words: str) -> Reader:
    """A value that the library understands; it is handed on as it is."""

    def read(value: object) -> Any:
        try:
            parse(value)
        except OptionError:
            raise WrongValueError(words) from None
        return value

    return read


duration = parsed_by(
    microseconds, "a duration such as '150ms', '2s' or '1h', or whole microseconds"
)
retention = parsed_by(Retention.parse, "a size such as '32 MB' or a duration such as '2s' or '1h'")
model = parsed_by(
    parse_snapshots, "'adaptive', 'speculative', 'speculative:N', or a number of events"
)


def zone(value: object) -> Zone:
    """A table with the busy factors to aim at; its span is a duration."""
    try:
        if isinstance(value, dict):
            span = {
                name: microseconds(v, "span") / 1e6 for name, v in value.items() if name == "span"
            }
            return Zone(**value | span)
    except OptionError as error:
        raise WrongValueError("a zone that makes sense", f": {error}") from None
    raise WrongValueError("a table such as { low = 0.8, high = 0.9 }")


def either(word: str, other: Reader) -> Reader:
    """One special word, or whatever the other reader takes."""

    def read(value: object) -> Any:
        if value == word:
            return value
        try:
            return other(value)
        except WrongValueError as error:
            raise WrongValueError(f"{word!r} or {error}", error.hint) from None

    return read


def slack(value: object) -> Any:
    if isinstance(value, str) and value.isalpha():
        return choice("largest", "decaying", "quantile")(value)
    try:
        return duration(value)
    except WrongValueError:
        raise WrongValueError(
            "one of largest, decaying, quantile, or a fixed duration such as '150ms'"
        ) from None


def texts(value: object) -> tuple[str, ...]:
    """One string, or a list of strings."""
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, list) and listed and all(isinstance(v, str) and v for v in listed):
        return tuple(listed)
    raise WrongValueError("a string or a list of strings")


def settings(value: object) -> dict[str, str]:
    """A table of settings that are passed on as text, such as options of Spark."""
    if isinstance(value, dict) and all(isinstance(v, str | int | float) for v in value.values()):
        return {
            name: str(each).lower() if isinstance(each, bool) else str(each)
            for name, each in value.items()
        }
    raise WrongValueError("a table of names with strings, numbers, true or false")


def mapping(value: object) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
        return dict(value)
    raise WrongValueError("a table of names with strings")
