"""Arrays from a checkpoint, checked before compiled code sees them.

A checksum finds damage. It does not find arrays that somebody has put together, and a compiled loop
trusts its indices: one that is out of range reads or writes memory that belongs to something else.
So whatever such a loop takes from a checkpoint is checked here first: kinds, shapes, and every
number that is used as an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import EventBatch, Payload
from betimes.model.codec import CheckpointError


def require(condition: object, what: str) -> None:
    """Refuse a checkpoint of which this does not hold."""
    if not condition:
        raise CheckpointError(
            f"the checkpoint does not fit together: {what}; start again from the beginning of the "
            "stream"
        )


def array(
    value: Any, kind: type[np.generic], shape: Sequence[int | None], what: str
) -> npt.NDArray[Any]:
    """An array of this kind and shape; None stands for any length."""
    has = isinstance(value, np.ndarray) and value.dtype == np.dtype(kind)
    require(has, f"{what} has no array of {kind.__name__}")
    fits = value.ndim == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, value.shape, strict=True)
    )
    require(fits and value.flags.carray, f"{what} has the shape {value.shape}")
    found: npt.NDArray[Any] = value
    return found


def indices(values: npt.NDArray[Any], count: int, what: str, *, least: int = 0) -> None:
    """Check that numbers are indices of `count` things; `least=-1` allows for none."""
    inside = not values.size or (values.min() >= least and values.max() < count)
    require(inside, f"{what} are out of range")


def increasing(values: Any, what: str) -> npt.NDArray[np.int64]:
    """Check that these are numbers of which each is larger than the one before."""
    numbers = array(values, np.int64, (None,), what)
    require((np.diff(numbers) > 0).all(), f"{what} are not in order")
    return numbers


def batch(ts: Any, codes: Any, types: Any, payload: Payload | None, what: str) -> EventBatch:
    """Events whose columns have one length, and whose types exist."""
    array(ts, np.int64, (None,), what)
    indices(array(codes, np.int32, ts.shape, what), len(types), f"the types of {what}")
    bare = isinstance(payload, pa.Table) and not payload.num_columns
    complete = payload is None or bare or len(payload) == len(ts)
    require(complete, f"payloads of {what} are missing")
    return EventBatch(ts, codes, tuple(types), payload)
