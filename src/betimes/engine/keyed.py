"""`order="key"`: every key has its own clock, slack and snapshots.

Devices that were offline, or a backfill, report hours after the others. With one shared order,
their events would be late. Here, each key has its own stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from betimes.engine.budget import Budget
from betimes.engine.load import Load, Span
from betimes.engine.shared import Readings, SharedOrder
from betimes.engine.stats import DetectorStats
from betimes.engine.stored import KeysState
from betimes.model import Duration, EventBatch, OptionError, microseconds
from betimes.model.change import Parts
from betimes.model.codec import dumps, loads
from betimes.model.coded import Coded
from betimes.model.event import Event
from betimes.model.stored import hashable, shaped
from betimes.model.volumes import VolumeReader, VolumeWriter


class KeyedOrder:
    """One order per key, made when the key is first seen."""

    gathers = False

    def __init__(self, make: Callable[..., SharedOrder], budget: Budget) -> None:
        self._make = make
        self._budget = budget
        self._attenuation: Mapping[str, float] = {}
        self.keys: dict[Any, SharedOrder] = {}

    @property
    def empty(self) -> bool:
        return not self.keys

    def read(
        self,
        batch: EventBatch,
        groups: Coded | None,
        events: list[Event] | None,  # noqa: ARG002 - a key gets few of them
        *,
        blocks: bool = False,
    ) -> list[tuple[Any, SharedOrder, Readings]]:
        """Sort out what arrives at the order of each key; a new order stays only once taken in."""
        assert groups is not None
        mine: dict[Any, list[int]] = {}
        for row, key in enumerate(groups.spelled()):
            mine.setdefault(key, []).append(row)
        readings = []
        for key, numbers in mine.items():
            order = self.keys.get(key) or self._open(key)
            rows = np.array(numbers)
            read = order.read(batch.take(rows), groups.take(rows), None, blocks=blocks)
            readings.append((key, order, read))
        return readings

    def take(self, readings: list[tuple[Any, SharedOrder, Readings]]) -> Parts:
        """Take in what was read."""
        self.keys |= {key: order for key, order, _ in readings}
        self._budget.sharers = len(self.keys)
        return [part for _, order, mine in readings for part in order.take(mine)]

    def _open(self, key: Any) -> SharedOrder:
        order = self._make(key=key)
        order.set_attenuation(self._attenuation)
        return order

    def advance(self, by: Duration | Mapping[Any, Duration]) -> Parts:
        """Time passes for all keys, or for some of them."""
        given = by if isinstance(by, Mapping) else dict.fromkeys(self.keys, by)
        passed = {key: microseconds(time, "by") for key, time in given.items()}
        for key in passed:
            if key not in self.keys:
                raise OptionError(
                    f"expected keys that have had an event, got key {key!r}, which has none: its "
                    "clock has not started; leave it out"
                )
        every = (self.keys[key].advance(time) for key, time in passed.items())
        return [part for parts in every for part in parts]

    def excuse(self, sources: Sequence[Any]) -> None:
        """Do not wait for these sources until they are heard again."""
        for order in self.keys.values():
            order.excuse(sources)

    def finish(self, *, advance: bool) -> Parts:
        every = (order.finish(advance=advance) for order in self.keys.values())
        return [part for parts in every for part in parts]

    def set_attenuation(self, values: Mapping[str, float]) -> None:
        self._attenuation = dict(values)
        for order in self.keys.values():
            order.set_attenuation(values)

    def loads(self) -> dict[str, Load]:
        """What each detector did since the last call, all keys together."""
        total: dict[str, Load] = {}
        for order in self.keys.values():
            for name, load in order.loads().items():
                total[name] = total[name] + load if name in total else load
        return total

    @property
    def sure_clock(self) -> int | None:
        """None: every key has its own clock."""
        return None

    def stats(self, span: Span) -> dict[str, DetectorStats]:
        found: dict[str, DetectorStats] = {}
        for key, order in self.keys.items():
            for name, reading in order.stats(span).items():
                who = f"{name} {key}"
                # The number 1 and the text "1" are two keys.
                found[f"{who} ({type(key).__name__})" if who in found else who] = reading
        return found

    def state_of(self, volumes: VolumeWriter) -> dict[str, Any]:
        """Everything needed to resume elsewhere, as data; history is in volumes."""
        orders = self.keys.items()
        return {
            "keys": [(key, dumps(order.state_of(volumes), "the engine")) for key, order in orders]
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        """Resume from what `state_of` kept."""
        keys = shaped(kept, KeysState, "the engine")["keys"]
        hashable([key for key, _ in keys], "the keys of the engine")
        for key, state in keys:
            self.keys[key] = order = self._open(key)
            order.resume(loads(state, f"the checkpoint of key {key!r}"), volumes)
