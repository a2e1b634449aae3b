"""Sending detectors to the workers: pickled on the driver, with a clear error if that fails.

PySpark moves code with cloudpickle. It accepts classes, functions and closures, even from a script
or a notebook, but not open files, locks or connections. Its own error says what it could not
pickle, but not where it found it; `ship` looks for the place.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle

from betimes.engine import Hierarchy
from betimes.model.errors import BetimesError


class ShippingError(BetimesError, TypeError):
    """A detector cannot be sent to the workers: which one, why, and what to do."""


def ship(hierarchy: Hierarchy) -> bytes:
    """The hierarchy as bytes for the workers of this query."""
    try:
        return _dumps(hierarchy)
    except Exception as error:  # cloudpickle raises whatever an object's own reduction raises
        raise ShippingError(_explain(hierarchy, error)) from error


def _explain(hierarchy: Hierarchy, error: BaseException) -> str:
    for node in hierarchy:
        source = node.maker.source
        if _can_ship(source):
            continue
        path, culprit = _culprit(source)
        where = f"its {path} holds" if path else "it holds"
        return (
            f"the detector {node.name!r} cannot be sent to the workers: {where} {culprit!r} "
            f"(a {type(culprit).__name__}); create it inside the detector when it is first used, "
            "or pass a class or a factory instead"
        )
    return f"the hierarchy cannot be sent to the workers: {error}"


def _culprit(thing: Any, depth: int = 4) -> tuple[str, Any]:
    """The innermost part that cannot be pickled, and the path to it."""
    for name, part in _parts(thing):
        if _can_ship(part):
            continue
        if depth == 0:
            return name, part
        inner, culprit = _culprit(part, depth - 1)
        return (f"{name}.{inner}" if inner else name), culprit
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


def _can_ship(thing: Any) -> bool:
    try:
        _dumps(thing)
    except Exception:  # noqa: BLE001 - the question is whether it fails, not how
        return False
    return True


def _dumps(thing: Any) -> bytes:
    return bytes(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]
