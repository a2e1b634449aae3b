"""Hints in error messages: what you probably meant when you misspelled a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches


def nearest(name: object, known: Collection[str]) -> str:
    """A hint at what was meant, to be put behind a message.

    >>> nearest("patth", ["path", "time"])
    "; did you mean 'path'?"
    >>> nearest("colour", ["path", "time"])
    '; known are path, time'
    """
    close = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def unknown(given: Iterable[str], known: Collection[str], what: str) -> str | None:
    """A message about the first unknown name; None if all are known.

    >>> unknown(["late", "atenuation"], ["late", "attenuation"], "option")
    "unknown option 'atenuation'; did you mean 'attenuation'?"
    """
    for name in given:
        if name not in known:
            return f"unknown {what} {name!r}{nearest(name, known)}"
    return None
