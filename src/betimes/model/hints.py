"""Hints in error messages: what you probably meant when you misspelled a name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar, cast

from betimes.model.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

RENAMED = {"checkpoints": "snapshots"}
"""Names that options once had."""

OWN = ("self", "cls")
"""Parameters that nobody passes by name."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint at the nearest known name, to be put behind a message; empty if none is near.

    >>> did_you_mean("patth", ["path", "time"]), did_you_mean("colour", ["path", "time"])
    ("; did you mean 'path'?", '')
    """
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest(name: object, known: Collection[str]) -> str:
    """The same, but if no name is near, the hint lists all of them; old names are known, too.

    >>> nearest("colour", ["path", "time"])
    '; known are path, time'
    """
    now = RENAMED.get(name) if isinstance(name, str) else None
    if now in known:
        return f"; it is now {now!r}"
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


def known_options(public: F) -> F:
    """Make unknown keywords errors that name the nearest one.

    It takes a function, or a class: then its constructor and all its public methods with options.
    It looks only after Python has refused a call, so that good calls do not pay for it.

    >>> @known_options
    ... def add(*, emits=None): ...
    >>> add(emit="x")
    Traceback (most recent call last):
    ...
    betimes.model.errors.OptionError: unknown option 'emit'; did you mean 'emits'?
    """
    if not inspect.isclass(public):
        return cast("F", _guarded(public))
    for name, member in list(vars(public).items()):
        if name == "__init__" or not name.startswith("_"):
            function = member.__func__ if isinstance(member, classmethod) else member
            if inspect.isfunction(function) and has_options(function):
                guarded = _guarded(function)
                setattr(public, name, guarded if function is member else classmethod(guarded))
    return public


def has_options(function: Callable[..., Any]) -> bool:
    """Whether a function has options of its own: those that take any keyword check them anyway."""
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return not takes_any and any(p.default is not p.empty for p in parameters)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError:
            named = [name for name in inspect.signature(function).parameters if name not in OWN]
            problem = unknown(keywords, named, "option")
            if problem is None:
                raise
        raise OptionError(problem)

    return call
