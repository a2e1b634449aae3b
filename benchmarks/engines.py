"""What engines of different versions call differently."""

from __future__ import annotations

import inspect
from typing import Any

from betimes import Engine


def snapshots(model: int | str) -> dict[str, Any]:
    """The engine option for the spacing of snapshots; it used to be called `checkpoints`.

    >>> Engine(hierarchy, **snapshots(1))  # doctest: +SKIP
    """
    old = "checkpoints" in inspect.signature(Engine).parameters
    return {"checkpoints" if old else "snapshots": model}
