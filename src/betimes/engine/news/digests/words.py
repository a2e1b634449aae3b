"""Words of single values, and the digest of one output."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from betimes.engine.news.digests.kernel import LOWER, UPPER

FACTOR = int(UPPER) << 64 | int(LOWER)
ALL, WORD = 2**128 - 1, 2**64 - 1
NONE, FALSE, INT, FLOAT, TRUE = range(1, 6)
"""The upper half of the words of values that are no text: what kind they are."""
NAN: int = struct.unpack("<Q", struct.pack("<d", float("nan")))[0]
_INT, _FLOAT = INT << 64, FLOAT << 64
_MANY = 100_000
"""Up to this many words of distinct texts are remembered."""

_float, _bits = struct.Struct("<d"), struct.Struct("<Q")
_texts: dict[str, int] = {}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} (a {type(value).__name__}) is not data")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="sorted")


def encode(content: object) -> bytes:
    """Data as bytes that are equal if and only if the data is."""
    return _ENCODER.encode(content)


def word_of_bytes(data: bytes) -> int:
    """A word for bytes."""
    return int.from_bytes(blake2b(data, digest_size=16).digest(), "little")


def word_of_text(text: str) -> int:
    """A word for a text; each distinct one is hashed once."""
    known = _texts.get(text)
    if known is None:
        if len(_texts) >= _MANY:
            _texts.clear()
        known = _texts[text] = word_of_bytes(text.encode("utf-8", "surrogatepass"))
    return known


def word_of(value: Any) -> int:
    """A word for a value; a `TypeError` if it is not data."""
    kind = type(value)
    if kind is int:
        number: int = value
        if -(2**63) <= number < 2**63:
            return _INT | number & WORD
        return word_of_bytes(b"int %d" % number)
    if kind is str:
        return word_of_text(value)
    if kind is float:
        bits: int = _bits.unpack(_float.pack(value))[0]
        return _FLOAT | (NAN if value != value else bits)
    if value is None:
        return NONE << 64
    if kind is bool:
        return (TRUE if value else FALSE) << 64
    if hasattr(value, "tolist"):
        plain: int = word_of(value.tolist())
        return plain
    return word_of_bytes(b"json " + encode(value))


class Digests:
    """Digests of what one detector makes."""

    def __init__(self, detector: str) -> None:
        self._detector = detector
        self._heads: dict[str, int] = {}
        self._shapes: dict[tuple[Any, ...], list[tuple[str, int]]] = {}

    def head(self, type: str) -> int:
        """The state that all outputs of a type begin with."""
        known = self._heads.get(type)
        if known is None:
            known = self._heads[type] = word_of_bytes(encode((self._detector, type)))
        return known

    def digest(
        self, type: str, ts: int, key: Any, payload: dict[str, Any], more: object = None
    ) -> str:
        """The digest of one output; `more` tells apart what is otherwise equal."""
        state = (self.head(type) ^ word_of(key)) * FACTOR & ALL
        state = (state ^ state >> 64 ^ ts & WORD) * FACTOR & ALL
        shape = tuple(payload)
        fields = self._shapes.get(shape)
        if fields is None:
            if len(self._shapes) >= _MANY:
                self._shapes.clear()
            fields = self._shapes[shape] = fields_of(shape)
        for name, number in fields:
            state = (state ^ state >> 64 ^ number ^ word_of(payload[name])) * FACTOR & ALL
        if more is not None:
            state = (state ^ state >> 64 ^ word_of_bytes(encode(more))) * FACTOR & ALL
        return f"{(state ^ state >> 64) >> 32:024x}"


def fields_of(names: Iterable[Any]) -> list[tuple[Any, int]]:
    """Names in order, each with a number for the upper half of the words of its values."""
    spelled = sorted((str(name), name) for name in names)
    return [(name, word_of_text(text) & ~WORD) for text, name in spelled]
