"""The identity of an output: a digest of what it says, the same on every machine.

What an output says is a sequence of 16-byte pieces: the detector, the type and the names of the
fields; the key; the time; and one piece for every field, in the order of their names. A number is
its own piece, with a mark for its kind; each distinct text is hashed once. The identity is the
BLAKE2b digest of these pieces, 12 bytes in hexadecimal. One output goes through `hashlib`
(`pieces`), whole columns through a compiled loop (`columns`, `kernel`); both give the same.
"""

from betimes.engine.news.digests.columns import digest_all
from betimes.engine.news.digests.pieces import Digests, encode

__all__ = ["Digests", "digest_all", "encode"]
