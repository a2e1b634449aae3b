"""Pieces of single values, and the digest of one output."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import Any

import msgspec

NONE, FALSE, INT, FLOAT, TRUE = range(1, 6)
"""The first half of the pieces of values that are no text: what kind they are."""
NAN = 0x7FF8000000000000
_MANY = 100_000
"""Up to this many pieces of distinct texts are remembered."""

_LEAST, _MOST = -(2**63), 2**63 - 1
type_of = type
_ints, _floats, _marks = Struct("<Qq"), Struct("<Qd"), Struct("<QQ")
_NONE, _FALSE, _TRUE, _NAN = (
    _marks.pack(*mark) for mark in ((NONE, 0), (FALSE, 0), (TRUE, 0), (FLOAT, NAN))
)
_texts: dict[str, bytes] = {}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} (a {type(value).__name__}) is not data")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="sorted")


def encode(content: object) -> bytes:
    """Data as bytes that are equal if and only if the data is."""
    try:
        return _ENCODER.encode(content)
    except UnicodeEncodeError:  # half of a surrogate pair: there is no such text in UTF-8
        return json.dumps(content, default=_plain, sort_keys=True).encode()


def piece_of_bytes(data: bytes) -> bytes:
    """A piece for bytes."""
    return blake2b(data, digest_size=16).digest()


def piece_of_text(text: str) -> bytes:
    """A piece for a text; each distinct one is hashed once."""
    known = _texts.get(text)
    if known is None:
        if len(_texts) >= _MANY:
            _texts.clear()
        known = _texts[text] = piece_of_bytes(text.encode("utf-8", "surrogatepass"))
    return known


def piece_of(value: Any) -> bytes:
    """A piece for a value; a `TypeError` if it is not data."""
    kind = type(value)
    if kind is int:
        if _LEAST <= value <= _MOST:
            return _ints.pack(INT, value)
        return piece_of_bytes(b"int %d" % value)
    if kind is str:
        return piece_of_text(value)
    if kind is float:
        return _NAN if value != value else _floats.pack(FLOAT, value)
    if value is None:
        return _NONE
    if kind is bool:
        return _TRUE if value else _FALSE
    if hasattr(value, "tolist"):
        plain: bytes = piece_of(value.tolist())
        return plain
    return piece_of_bytes(b"json " + encode(value))


class Digests:
    """Digests of what one detector makes."""

    def __init__(self, detector: str) -> None:
        self._detector = detector
        self._heads: dict[tuple[Any, ...], tuple[bytes, list[Any]]] = {}

    def head(self, type: str, names: Iterable[Any]) -> tuple[bytes, list[Any]]:
        """The piece that all outputs of a type with these fields share, and the names in order."""
        shape = (type, *names)
        known = self._heads.get(shape)
        if known is None:
            if len(self._heads) >= _MANY:
                self._heads.clear()
            spelled = sorted((str(name), name) for name in shape[1:])
            content = (self._detector, type, [text for text, _ in spelled])
            known = piece_of_bytes(encode(content)), [name for _, name in spelled]
            self._heads[shape] = known
        return known

    def digest(
        self, type: str, ts: int, key: Any, payload: dict[str, Any], more: object = None
    ) -> str:
        """The digest of one output; `more` tells apart what is otherwise equal."""
        known = self._heads.get((type, *payload))
        head, names = known or self.head(type, payload)
        pieces = [head, piece_of(key), _ints.pack(0, ts)]
        for name in names:
            value = payload[name]
            # Most values are numbers of this size; a call for each would cost more than the rest.
            if type_of(value) is int and _LEAST <= value <= _MOST:
                pieces.append(_ints.pack(INT, value))
            else:
                pieces.append(piece_of(value))
        if more is not None:
            pieces.append(piece_of_bytes(encode(more)))
        return blake2b(b"".join(pieces), digest_size=12).hexdigest()
