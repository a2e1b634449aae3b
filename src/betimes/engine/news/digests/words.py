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
"""The first word of values that are no text: what kind they are."""
NAN = struct.unpack("<Q", struct.pack("<d", float("nan")))[0]
_MANY = 100_000
"""Up to this many words of distinct texts are remembered."""

Pair = tuple[int, int]
_float, _bits = struct.Struct("<d"), struct.Struct("<Q")
_texts: dict[str, Pair] = {}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} (a {type(value).__name__}) is not data")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="sorted")


def encode(content: object) -> bytes:
    """Data as bytes that are equal if and only if the data is."""
    return _ENCODER.encode(content)


def pair_of(data: bytes) -> Pair:
    """Two words for bytes."""
    found = blake2b(data, digest_size=16).digest()
    return int.from_bytes(found[:8], "little"), int.from_bytes(found[8:], "little")


def text_pair(text: str) -> Pair:
    """Two words for a text; each distinct one is hashed once."""
    known = _texts.get(text)
    if known is None:
        if len(_texts) >= _MANY:
            _texts.clear()
        known = _texts[text] = pair_of(text.encode("utf-8", "surrogatepass"))
    return known


def words_of(value: Any) -> Pair:
    """Two words for a value; a `TypeError` if it is not data."""
    kind = type(value)
    if kind is int:
        if -(2**63) <= value < 2**63:
            return INT, value & WORD
        return pair_of(b"int %d" % value)
    if kind is str:
        return text_pair(value)
    if kind is float:
        return FLOAT, NAN if value != value else _bits.unpack(_float.pack(value))[0]
    if value is None:
        return NONE, 0
    if kind is bool:
        return TRUE if value else FALSE, 0
    if hasattr(value, "tolist"):
        return words_of(value.tolist())
    return pair_of(b"json " + encode(value))


class Digests:
    """Digests of what one detector makes."""

    def __init__(self, detector: str) -> None:
        self._detector = detector
        self._heads: dict[str, int] = {}
        self._shapes: dict[tuple[Any, ...], list[tuple[str, int]]] = {}

    def head(self, type: str) -> int:
        """The state after the words that all outputs of a type share."""
        if type not in self._heads:
            self._heads[type] = mixed(0, pair_of(encode((self._detector, type))))
        return self._heads[type]

    def digest(
        self, type: str, ts: int, key: Any, payload: dict[str, Any], more: object = None
    ) -> str:
        """The digest of one output; `more` tells apart what is otherwise equal."""
        state = mixed(self.head(type), (*words_of(key), ts & WORD))
        # The loop of `mixed` is written out: this runs for every output.
        for name, number in self._fields(payload):
            kind, word = words_of(payload[name])
            state = (state ^ number ^ kind) * FACTOR & ALL
            state ^= state >> 64
            state = (state ^ word) * FACTOR & ALL
            state ^= state >> 64
        if more is not None:
            state = mixed(state, pair_of(encode(more)))
        return f"{state >> 32:024x}"

    def _fields(self, payload: dict[str, Any]) -> list[tuple[str, int]]:
        """The fields in the order of their names, each with a number for its name."""
        shape = tuple(payload)
        known = self._shapes.get(shape)
        if known is None:
            if len(self._shapes) >= _MANY:
                self._shapes.clear()
            known = self._shapes[shape] = fields_of(shape)
        return known


def fields_of(names: Iterable[Any]) -> list[tuple[Any, int]]:
    """Names in order, each with a number."""
    spelled = sorted((str(name), name) for name in names)
    return [(name, text_pair(text)[0]) for text, name in spelled]


def mixed(state: int, words: Iterable[int]) -> int:
    """The state after some words."""
    for word in words:
        state = (state ^ word) * FACTOR & ALL
        state ^= state >> 64
    return state
