"""Engines of this version and of an earlier one, behind one call."""

from __future__ import annotations

import inspect
from typing import Any

from betimes import Engine


def snapshots(model: int | str) -> dict[str, Any]:
    """The option that says how far apart snapshots are; versions before 0.2 call it `checkpoints`.

    >>> Engine(hierarchy, **snapshots(1))  # doctest: +SKIP
    """
    old = "checkpoints" in inspect.signature(Engine).parameters
    return {"checkpoints" if old else "snapshots": model}
