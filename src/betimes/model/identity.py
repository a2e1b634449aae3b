"""Identity: what a saved state depends on, and how two identities differ, in words.

An identity is a table of facts: text by subject and property, such as `within = "30 min"` of
`detector 'abandoned'`. Two identities are the same if all their facts are. Facts are exact: values
that differ have texts that differ. They are plain data, so they can be stored with a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

Facts = Mapping[str, str]

_LONG = 120
"""Longer text is shortened to its beginning, with a digest of the whole."""


@dataclass(frozen=True)
class Identity:
    """Facts by subject.

    >>> was = Identity({"detector 'abandoned'": {"within": "30 min", "by": "user"}})
    >>> now = Identity({"detector 'abandoned'": {"within": "20 min", "by": "user"}})
    >>> now.differences(was)
    ["detector 'abandoned': within was 30 min, is 20 min"]
    """

    facts: Mapping[str, Facts]

    def __or__(self, other: Identity) -> Identity:
        """The facts of both."""
        return Identity({**self.facts, **other.facts})

    @property
    def digest(self) -> str:
        """A short text that differs if the identities differ."""
        return blake2b(msgspec.json.encode(self.facts, order="sorted"), digest_size=8).hexdigest()

    def differences(self, stored: Identity) -> list[str]:
        """How this identity differs from one that was stored: one line per difference."""
        lines = []
        for subject in {**stored.facts, **self.facts}:
            was, now = stored.facts.get(subject), self.facts.get(subject)
            if was is None or now is None:
                lines.append(f"{subject} is {'new' if was is None else 'gone'}")
                continue
            lines += [
                f"{subject}: {name} was {was.get(name, 'not given')}, "
                f"is {now.get(name, 'not given')}"
                for name in {**was, **now}
                if was.get(name) != now.get(name)
            ]
        return lines


def fact(value: Any) -> str | None:
    """Plain data as text that differs if the data differs; None if it is not plain data.

    >>> fact("A"), fact({"x": 1.5}), fact(open)
    ('A', '{"x":1.5}', None)
    """
    if isinstance(value, str):
        text = value
    else:
        try:
            text = msgspec.json.encode(value, enc_hook=_plain, order="deterministic").decode()
        except (TypeError, ValueError, RecursionError):
            return None
    if len(text) <= _LONG:
        return text
    return f"{text[:_LONG]}... ({blake2b(text.encode(), digest_size=6).hexdigest()})"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is not data")
