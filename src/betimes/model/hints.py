"""Hints in error messages: what you probably meant when you misspelled a name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import ParamSpec, TypeVar

from betimes.model.errors import OptionError

P = ParamSpec("P")
T = TypeVar("T")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint at the nearest known name, to be put behind a message; empty if none is near.

    >>> did_you_mean("patth", ["path", "time"]), did_you_mean("colour", ["path", "time"])
    ("; did you mean 'path'?", '')
    """
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest(name: object, known: Collection[str]) -> str:
    """The same, but if no name is near, the hint lists all of them.

    >>> nearest("colour", ["path", "time"])
    '; known are path, time'
    """
    return did_you_mean(name, known) or f"; known are {', '.join(known)}"


def unknown(given: Iterable[str], known: Collection[str], what: str) -> str | None:
    """A message about the first unknown name; None if all are known.

    >>> unknown(["late", "atenuation"], ["late", "attenuation"], "option")
    "unknown option 'atenuation'; did you mean 'attenuation'?"
    """
    for name in given:
        if name not in known:
            return f"unknown {what} {name!r}{nearest(name, known)}"
    return None


def known_options(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose unknown keywords are errors that name the nearest one.

    >>> @known_options
    ... def add(*, emits=None): ...
    >>> add(emit="x")
    Traceback (most recent call last):
    ...
    betimes.model.errors.OptionError: unknown option 'emit'; did you mean 'emits'?
    """
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        problem = unknown(keywords, [name for name in known if name != "self"], "option")
        if problem is not None:
            raise OptionError(problem)
        return function(*args, **keywords)

    return call
