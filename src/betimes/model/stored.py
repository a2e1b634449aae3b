"""Arrays from a checkpoint, checked before compiled code sees them.

A checksum finds damage. It does not find arrays that somebody has put together, and a compiled loop
trusts its indices: one that is out of range reads or writes memory that belongs to something else.
So whatever such a loop takes from a checkpoint is checked here first: kinds, shapes, and every
number that is used as an index.

What Python works on is checked, too: a `TypedDict` says what a part of a checkpoint consists of, so
something that no engine wrote is refused when it is restored, not when somebody needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import EventBatch, Payload
from betimes.model.codec import CheckpointError
from betimes.model.event import Event

Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number that fits an array."""

Place = tuple[Int, Int, Any]
"""A place in the order of a stage."""


def shaped(kept: Any, shape: Any, what: str) -> Any:
    """Data of this shape; if it has another one, the checkpoint is refused."""
    try:
        return msgspec.convert(kept, shape, dec_hook=_as_it_is)
    except (msgspec.ValidationError, OverflowError) as error:
        raise CheckpointError(
            f"the checkpoint does not fit together: in {what}, {error}; start again from the "
            "beginning of the stream"
        ) from error


def _as_it_is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected `{kind.__name__}`, got `{type(value).__name__}`")
    return value


def hashable(keys: Sequence[Any], what: str) -> None:
    """Check that these can be keys."""
    try:
        set(keys)
    except TypeError:
        require(False, f"{what} cannot be keys")


def events(values: Any, what: str) -> list[Event]:
    """Check that these are events such as an engine takes."""
    found: list[Event] = shaped(values, list[Event], what)
    for event in found:
        fine = type(event.type) is str and type(event.ts) is int and type(event.payload) is dict
        require(fine and 0 <= event.ts < 2**63, f"{what} are not events")
    return found


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
