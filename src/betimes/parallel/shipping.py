"""Code that travels to another process: pickled, with a clear error if that fails.

The error of a pickler says what it could not pickle, but not where it found it; `culprit` looks for
the place, so that the message can name the attribute.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

from betimes.model.errors import BetimesError

Dumps = Callable[[Any], bytes]


class ShippingError(BetimesError, TypeError):
    """Code cannot be sent to other processes: which part, why, and what to do."""


def packed(thing: Any, name: str) -> bytes:
    """A function or an object as bytes for worker processes; `name` is what users call it."""
    try:
        data = pickle.dumps(thing)
    except Exception as error:  # a pickler raises whatever an object's own reduction raises
        raise ShippingError(_explain(thing, name)) from error
    if needs_script(data) and not hasattr(sys.modules["__main__"], "__file__"):
        raise ShippingError(
            f"{name} cannot be sent to worker processes: it was defined in a notebook or a shell, "
            "which they cannot import; define it in a module"
        )
    return data


def needs_script(code: bytes) -> bool:
    """Whether it refers to what the running script, or the notebook, has defined."""
    return b"__main__" in code


def _explain(thing: Any, name: str) -> str:
    path, part = culprit(thing, pickle.dumps)
    where = f"its {path} is" if path else "it is"
    if inspect.isfunction(part) or inspect.isclass(part):
        return (
            f"{name} cannot be sent to worker processes: {where} {part.__qualname__!r}, which they "
            "cannot import; define it at the top level of a module"
        )
    return (
        f"{name} cannot be sent to worker processes: {where} {part!r} (a {type(part).__name__}); "
        "create it where it is first used instead"
    )


def culprit(thing: Any, dumps: Dumps, depth: int = 4) -> tuple[str, Any]:
    """The innermost part that cannot be pickled, and the path to it."""
    for name, part in _parts(thing):
        if can_ship(part, dumps):
            continue
        if depth == 0:
            return name, part
        inner, found = culprit(part, dumps, depth - 1)
        return (f"{name}.{inner}" if inner else name), found
    return "", thing


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object, a class or a function refers to, with names that a reader can find."""
    if inspect.isfunction(thing):
        closure = inspect.getclosurevars(thing)
        for kind, names in (("variable", closure.nonlocals), ("global", closure.globals)):
            for name, value in names.items():
                if not inspect.ismodule(value):
                    yield f"{kind} {name!r}", value
        return
    if isinstance(thing, dict):
        for name, value in thing.items():
            yield f"item {name!r}", value
        return
    if isinstance(thing, list | tuple | set):
        for number, value in enumerate(thing):
            yield f"item {number}", value
        return
    members = vars(thing) if hasattr(thing, "__dict__") else {}
    for name, value in dict(members).items():
        if not name.startswith("__"):
            yield f"attribute {name!r}", value


def can_ship(thing: Any, dumps: Dumps) -> bool:
    """Whether a pickler takes it."""
    try:
        dumps(thing)
    except Exception:  # noqa: BLE001 - the question is whether it fails, not how
        return False
    return True
