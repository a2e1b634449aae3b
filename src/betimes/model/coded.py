"""A column of keys or names: numbers, and the values that they stand for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model.batch import EventBatch, pick
from betimes.model.errors import EventError
from betimes.model.sifting import in_one
from betimes.model.unmade import Events, payloads_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """The keys of some events, or their types."""

    codes: Ints
    values: list[Any]

    @classmethod
    def of(cls, batch: EventBatch, column: str, who: str, *, option: str = "by") -> Coded:
        """The keys in a payload column; Python objects are taken one by one, as they are."""
        payload = batch.payload
        if isinstance(payload, pa.Table) and column in payload.column_names:
            values: Any = payload[column]
            # Lists and the like cannot be keys; the slow path names the event.
            if not pa.types.is_nested(values.type):
                whole = in_one(values.unify_dictionaries())
                if not pa.types.is_dictionary(whole.type):
                    whole = whole.dictionary_encode(null_encoding="encode")
                indices = whole.indices.cast(pa.int64())
                keys = whole.dictionary.to_pylist()
                if indices.null_count:
                    indices = indices.fill_null(len(keys))
                    keys.append(None)
                return cls(indices.to_numpy(), keys)
        return cls.plain(keys_of(batch.rows(), column, who, option=option))

    @classmethod
    def plain(cls, keys: list[Any]) -> Coded:
        """Keys as they are."""
        return cls(np.arange(len(keys)), keys)

    @classmethod
    def named(cls, names: Sequence[Any]) -> Coded:
        """Names, most of which are the same."""
        number = {name: n for n, name in enumerate(dict.fromkeys(names))}
        return cls(np.array([number[name] for name in names], np.int64), [*number])

    @classmethod
    def concat(cls, parts: Sequence[Coded]) -> Coded:
        """All of them."""
        values = parts[0].values
        if all(part.values == values for part in parts):
            return cls(np.concatenate([part.codes for part in parts]), values)
        number: dict[Any, int] = {}
        codes = []
        for part in parts:
            mine = [number.setdefault(value, len(number)) for value in part.values]
            codes.append(np.array(mine, np.int64).take(part.codes))
        return cls(np.concatenate(codes), [*number])

    def take(self, rows: Ints) -> Coded:
        """The keys of these rows."""
        return Coded(self.codes[rows], self.values)

    def spelled(self) -> list[Any]:
        """The keys themselves."""
        return pick(self.values, self.codes.tolist())

    def with_own(self, own: Coded) -> Coded:
        """Pairs of these keys and those of the same events by another column."""
        pairs: Any = pa.array(self.codes * len(own.values) + own.codes).dictionary_encode()
        split = (divmod(pair, len(own.values)) for pair in pairs.dictionary.to_pylist())
        values = [(self.values[group], own.values[key]) for group, key in split]
        return Coded(pairs.indices.to_numpy(), values)

    def compact(self) -> Coded:
        """The same keys without unused values, in order of first appearance."""
        found: Any = pa.array(self.codes).dictionary_encode()
        return Coded(found.indices.to_numpy(), pick(self.values, found.dictionary.to_pylist()))


def keys_of(events: Events, by: str, who: str, *, option: str = "by") -> list[Any]:
    """The keys of events; an error names an event without one, or with an invalid one."""
    try:
        keys = [payload[by] for payload in payloads_of(events)]
        set(keys)
    except KeyError:
        culprit = next(event for event in events if by not in event.payload)
        raise EventError(f"{who} has {option}={by!r}, but {culprit!r} has no {by!r}") from None
    except TypeError:
        for event in events:
            if not isinstance(event.payload[by], Hashable):
                raise EventError(
                    f"{who} has {option}={by!r}, but in {event!r} its value cannot be a key; "
                    "use numbers or text"
                ) from None
        raise
    return keys
