"""Sending detectors to the workers: pickled on the driver, with a clear error if that fails.

PySpark moves code with cloudpickle. It accepts classes, functions and closures, even from a script
or a notebook, but not open files, locks or connections. Its own error says what it could not
pickle, but not where it found it; `culprit` looks for the place.

A worker of Spark may start processes itself, for the instances of a windowed operator. They import
what they run, and what the driver's script has defined cannot be imported where Spark's workers
are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark import cloudpickle

from betimes.engine import Hierarchy
from betimes.parallel import ShippingError, can_ship, culprit, needs_script, packed


def ship(hierarchy: Hierarchy, inside: Collection[str] = ()) -> bytes:
    """The hierarchy as bytes for the workers of this query.

    Those `inside` start no processes, whatever they would do elsewhere.
    """
    for node in hierarchy:
        sent = None if node.name in inside else getattr(node.maker.source, "sent", None)
        if sent is not None and needs_script(packed(sent, node.name)):
            raise ShippingError(
                f"the detector {node.name!r} runs in processes that the workers of Spark start, "
                "and these cannot import the script that defines it; define it in a module, or "
                "let it run in the workers themselves (workers='inline' for windows, workers=1 "
                "for transactions)"
            )
    try:
        return _dumps(hierarchy)
    except Exception as error:  # cloudpickle raises whatever an object's own reduction raises
        raise ShippingError(_explain(hierarchy, error)) from error


def _explain(hierarchy: Hierarchy, error: BaseException) -> str:
    for node in hierarchy:
        source = node.maker.source
        if can_ship(source, _dumps):
            continue
        path, part = culprit(source, _dumps)
        where = f"its {path} holds" if path else "it holds"
        return (
            f"the detector {node.name!r} cannot be sent to the workers: {where} {part!r} "
            f"(a {type(part).__name__}); create it inside the detector when it is first used, "
            "or pass a class or a factory instead"
        )
    return f"the hierarchy cannot be sent to the workers: {error}"


def _dumps(thing: Any) -> bytes:
    return bytes(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]
