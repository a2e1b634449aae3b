"""The identity of an output: a digest of what it says, the same on every machine.

What an output says is a sequence of 128-bit words: the detector and the type, the key, the time,
and one word for every field of the payload, in the order of their names. A number is its own word,
with a mark for its kind; each distinct text is hashed once. A state of 128 bits takes one word
after the other:

    state = (state xor word) * FACTOR mod 2^128;  state = state xor (state >> 64)

Every step is a bijection, so outputs that differ in one field never share a digest. Its upper 96
bits, in hexadecimal, are the identity. One compiled loop does this for whole columns (`kernel`), a
few lines of Python for one output (`words`); both give the same.
"""

from betimes.engine.news.digests.columns import digest_all
from betimes.engine.news.digests.words import Digests, encode

__all__ = ["Digests", "digest_all", "encode"]
