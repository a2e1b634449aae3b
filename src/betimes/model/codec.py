"""Checkpoints as data: msgpack, never pickled objects.

Python's plain values and containers are written with a tag for their kind, so that a tuple comes
back as a tuple and a set as a set. Anything else is refused, with where it was found.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from betimes.model.errors import BetimesError
from betimes.model.event import Event

_LIST, _TUPLE, _SET, _FROZEN, _DICT, _DEQUE, _ARRAY, _EVENT, _BIG, _INTS, _ODD = range(11)
_SEAL = 16
"""Bytes of a checksum."""
_ATOMS = (type(None), bool, float, str, bytes)
_CONTAINERS: dict[type, int] = {list: _LIST, tuple: _TUPLE, set: _SET, frozenset: _FROZEN}
_MAKERS = {_LIST: list, _TUPLE: tuple, _SET: set, _FROZEN: frozenset}


class CheckpointError(BetimesError, ValueError):
    """A checkpoint cannot be written or read; the message says why, and what to do."""


def dumps(value: Any, what: str) -> bytes:
    """Write data as bytes; `what` names it in errors."""
    packed = _pack(value, what)
    try:
        return msgspec.msgpack.encode(packed)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_with_odd_texts(packed))


def loads(data: bytes, what: str) -> Any:
    """Read what `dumps` wrote."""
    try:
        return _unpack(msgspec.msgpack.decode(data))
    except (msgspec.DecodeError, TypeError, ValueError, LookupError, RecursionError) as error:
        raise CheckpointError(f"{what} is damaged or not a checkpoint: {error}") from error


def sealed(data: bytes) -> bytes:
    """Data behind a checksum."""
    return blake2b(data, digest_size=_SEAL).digest() + data


def unsealed(
    data: bytes, what: str, instead: str = "start again from the beginning of the stream"
) -> bytes:
    """Data that `sealed` wrote; refused if a bit of it has changed. `instead` says what to do."""
    seal, rest = data[:_SEAL], data[_SEAL:]
    if blake2b(rest, digest_size=_SEAL).digest() != seal:
        raise CheckpointError(
            f"{what} is damaged, or another version of betimes wrote it; finish the stream with "
            f"that version, or {instead}"
        )
    return rest


def _pack(value: Any, where: str) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else [_BIG, str(value)]
    if kind is list and len(value) > 8 and set(map(type, value)) == {int}:
        try:
            return [_INTS, np.array(value, np.int64).tobytes()]
        except OverflowError:
            pass
    if kind in _CONTAINERS:
        items = sorted(value, key=repr) if kind in (set, frozenset) else value
        return [_CONTAINERS[kind], *(_pack(item, where) for item in items)]
    if kind is dict:
        flat = (part for pair in value.items() for part in pair)
        return [_DICT, *(_pack(part, where) for part in flat)]
    if kind is deque:
        return [_DEQUE, value.maxlen, *(_pack(item, where) for item in value)]
    if kind is Event:
        return [_EVENT, value.type, value.ts, _pack(value.payload, where)]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return [_ARRAY, value.dtype.str, list(value.shape), value.tobytes()]
    if isinstance(value, np.generic):
        return _pack(value.item(), where)
    raise CheckpointError(
        f"{where} holds {value!r} (a {kind.__name__}), which is not data; keep numbers, text, "
        "containers and arrays there, or give the detector snapshot() and restore(state)"
    )


def _with_odd_texts(packed: Any) -> Any:
    """The same, with texts that have half of a surrogate pair as bytes."""
    if isinstance(packed, list):
        return [_with_odd_texts(part) for part in packed]
    if not isinstance(packed, str) or packed.encode(errors="replace").decode() == packed:
        return packed
    return [_ODD, packed.encode("utf-8", "surrogatepass")]


def _unpack(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    tag, rest = value[0], value[1:]
    if tag in _MAKERS:
        return _MAKERS[tag](_unpack(item) for item in rest)
    if tag == _DICT:
        parts = [_unpack(part) for part in rest]
        return dict(zip(parts[::2], parts[1::2], strict=True))
    if tag == _DEQUE:
        return deque((_unpack(item) for item in rest[1:]), rest[0])
    if tag == _EVENT:
        return Event(rest[0], rest[1], _unpack(rest[2]))
    if tag == _ARRAY:
        return np.frombuffer(rest[2], dtype=rest[0]).reshape(rest[1]).copy()
    if tag == _INTS:
        return np.frombuffer(rest[0], np.int64).tolist()
    if tag == _BIG:
        return int(rest[0])
    if tag == _ODD:
        return rest[0].decode("utf-8", "surrogatepass")
    raise CheckpointError(f"unknown tag {tag!r}")
