"""Getting detectors to the workers: packed on the driver, with a clear word if that cannot be.

PySpark moves code with cloudpickle, which takes classes, functions and closures, also those of a
script or a notebook, but no open files, locks or connections. Its own error says what it could not
take, not where it was found; `ship` looks for the place.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle

from betimes.engine import Hierarchy
from betimes.model.errors import BetimesError


class ShippingError(BetimesError, TypeError):
    """A detector cannot be sent to the workers: which one, which attribute, and what to do."""


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
            f"expected the detector {node.name!r} to be made of things that can be sent to the "
            f"workers, but {where} {culprit!r} (a {type(culprit).__name__}); make it inside the "
            "detector when it is first used, or hand in a class or a factory instead"
        )
    return f"expected a hierarchy that can be sent to the workers, but: {error}"


def _culprit(thing: Any, depth: int = 4) -> tuple[str, Any]:
    """The innermost part that cannot be packed, and the way to it."""
    for name, part in _parts(thing):
        if _can_ship(part):
            continue
        if depth == 0:
            return name, part
        inner, culprit = _culprit(part, depth - 1)
        return (f"{name}.{inner}" if inner else name), culprit
    return "", thing


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object, a class or a function refers to, with names a reader can find."""
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
