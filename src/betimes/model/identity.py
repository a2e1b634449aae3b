"""Identity: what a saved state depends on, and how two identities differ, in words.

An identity is a table of facts: text by subject and property, such as `within = "30 min"` of
`detector 'abandoned'`. Two identities are the same if all their facts are. Facts are exact: values
that differ have texts that differ. They are plain data, so they can be stored with a state.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np

Facts = Mapping[str, str]

WHOLE = "the hierarchy"


def subject(name: str) -> str:
    """How an identity names a detector."""
    return f"detector {name!r}"


_DEEP = 6
"""Objects within objects are looked at this far."""
_REPRS = frozenset({
    type(None), bool, int, float, complex, str, bytes, datetime, date, time, timedelta, Decimal,
    Fraction, range, slice, re.Pattern, np.float64, np.float32, np.int64, np.int32, np.bool_,
})  # fmt: skip
"""Values that `repr` tells apart, in every process the same."""
_LONG = 120
"""Longer text is shortened to its beginning, with a digest of the whole."""


@dataclass(frozen=True)
class Identity:
    """Facts by subject.

    >>> was = Identity({"detector 'abandoned'": {"within": "30 min", "by": "user"}})
    >>> now = Identity({"detector 'abandoned'": {"within": "20 min", "by": "user"}})
    >>> now.differences(was)
    ["detector 'abandoned': within was 30 min, is 20 min"]
    """

    facts: Mapping[str, Facts]

    def __or__(self, other: Identity) -> Identity:
        """The facts of both."""
        return Identity({**self.facts, **other.facts})

    @property
    def digest(self) -> str:
        """A short text that differs if the identities differ."""
        return blake2b(msgspec.json.encode(self.facts, order="sorted"), digest_size=8).hexdigest()

    def differences(self, stored: Identity) -> list[str]:
        """How this identity differs from one that was stored: one line per difference."""
        lines = []
        for subject in {**stored.facts, **self.facts}:
            was, now = stored.facts.get(subject), self.facts.get(subject)
            if was is None or now is None:
                lines.append(f"{subject} is {'new' if was is None else 'gone'}")
                continue
            lines += [
                f"{subject}: {name} was {was.get(name, 'not given')}, "
                f"is {now.get(name, 'not given')}"
                for name in {**was, **now}
                if was.get(name) != now.get(name)
            ]
        return lines


def spelled_names(names: Iterable[str]) -> str:
    """Names as a text, in any order; a name that reads like something else is quoted.

    >>> spelled_names(["b", "a"]), spelled_names(["a, b"]), spelled_names(["nothing"])
    ('a, b', "'a, b'", "'nothing'")
    """
    return ", ".join(name if _is_plain(name) else repr(name) for name in sorted(names))


def _is_plain(name: str) -> bool:
    return name.replace(".", "_").isidentifier() and name not in ("nothing", "learned", "any")


def fact(value: Any) -> str:
    """A value as a text that differs if the value does, in every process the same.

    >>> fact("A"), fact({"x": 1.5}), fact({2, 1}), fact(len)
    ("'A'", "{'x': 1.5}", '{1, 2}', 'len')
    """
    text = _spelled(value, 0)
    if len(text) <= _LONG:
        return text
    return f"{text[:_LONG]}... ({blake2b(text.encode(), digest_size=6).hexdigest()})"


def _spelled(value: Any, depth: int) -> str:
    if depth > _DEEP:
        return "..."

    def each(values: Iterable[Any]) -> list[str]:
        return [_spelled(one, depth + 1) for one in values]

    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if type(value) in _REPRS or isinstance(value, PurePath):
        return repr(value)
    if isinstance(value, np.ndarray):
        content = value.tobytes() if not value.dtype.hasobject else repr(value.tolist()).encode()
        digest = blake2b(content, digest_size=6).hexdigest()
        return f"array of {value.dtype} {value.shape} ({digest})"
    if isinstance(value, list | tuple | deque):
        kind = "" if type(value) in (list, tuple) else type(value).__name__
        inside = ", ".join(each(value))
        return f"{kind}({inside})" if isinstance(value, tuple) else f"{kind}[{inside}]"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(each(value))) + "}"
    if isinstance(value, dict):
        pairs = zip(each(value), each(value.values()), strict=True)
        return "{" + ", ".join(f"{name}: {text}" for name, text in pairs) + "}"
    if inspect.isroutine(value) or isinstance(value, type):
        return getattr(value, "__qualname__", str(type(value))) + _bound(value, depth)
    # Of other objects, what is plain: the rest may hold anything, such as locks and caches.
    plain = {name: held for name, held in attributes(value).items() if type(held) in _REPRS}
    return type(value).__qualname__ + (f" {_spelled(plain, depth + 1)}" if plain else "")


def _bound(function: Any, depth: int) -> str:
    """What a function was made with: defaults, closure, object."""
    cells = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    known: list[Iterable[Any]] = [getattr(function, "__defaults__", None) or (), cells.values()]
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        known.append([owner])
    texts = [_spelled(one, depth + 1) for values in known for one in values]
    return f" with {', '.join(texts)}" if texts else ""


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**held, **getattr(value, "__dict__", {})}
