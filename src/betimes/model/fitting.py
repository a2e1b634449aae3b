"""Whether a stored state fits: written in this format, and under the same settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from betimes.model.codec import CheckpointError, sealed, unsealed
from betimes.model.identity import Facts, Identity

FIRST = 1
"""The format of what does not say in which format it is."""

T = TypeVar("T")


class _Format(msgspec.Struct):
    format: int = FIRST


def check_format(found: object, expected: int, what: str, instead: str) -> None:
    """Refuse a state of another format; `instead` says what else you can do."""
    if found != expected:
        raise CheckpointError(
            f"another version of betimes wrote {what}: its format is {found}, this version reads "
            f"format {expected}; finish the stream with that version, or {instead}"
        )


def check_identity(now: Identity, stored: Mapping[str, Facts], what: str, instead: str) -> None:
    """Refuse a state that was stored under different settings, and name every difference."""
    differences = now.differences(Identity(stored))
    if differences:
        lines = "\n".join(f"  {line}" for line in differences)
        raise CheckpointError(
            f"{what} belongs to a job with different settings:\n{lines}\n"
            f"use those settings, or {instead}"
        )


def stored(record: msgspec.Struct) -> bytes:
    """A record as `read_stored` reads it: msgpack behind a checksum."""
    return sealed(msgspec.msgpack.encode(record))


def read_stored(data: bytes, kind: type[T], format: int, what: str, instead: str) -> T:  # noqa: A002
    """A stored record with a field `format`."""
    data = unsealed(data, what, instead)
    try:
        found = msgspec.msgpack.decode(data, type=_Format).format
        check_format(found, format, what, instead)
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"{what} is damaged or not a checkpoint: {error}; {instead}"
        ) from None
