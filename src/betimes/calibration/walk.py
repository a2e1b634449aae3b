"""Semi-configured calibration: adapts an older configuration, without running the stream again.

When a detector moves to another machine, a network becomes slower or a sensor is replaced, most of
what was measured still holds. Processing and back-setting belong to the detectors and stay. Jitter,
network and ordering change; but the first two are known or easily measured, and ordering, which is
slack, follows from the rest (paper *slack*, section III-B and Algorithm 3):

1. A pseudo event is made for every type that a detector of level 1 publishes, dated as its latest
   real event would be: `clock - jitter - processing - back-setting`. Nobody handles it. Here jitter
   is the largest of the detector's inputs, which is its slack.
2. It arrives at the readers after the time `network`. Its delay there is `clock - ts`, the sum of
   all sub-delays.
3. A detector that has the delays of all its inputs takes the largest for its slack, and sends
   pseudo events in turn, dated `clock - slack - processing - back-setting`.

Detectors are visited in topological order, so each one has all its inputs when its turn comes, and
one walk up the hierarchy is enough.

One thing differs from the paper. Processing is mostly the steps of the clock, and a detector whose
slack has changed releases its events at other moments between them. The longest processing time for
the old slack need not be the longest for the new one, so the longest of all detectors is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from betimes.calibration.iterative import Recording, batches_of
from betimes.calibration.probes import Probe, delays_at
from betimes.configuration.value import (
    Calibration,
    CalibrationError,
    Setting,
    SubDelays,
)
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.node import Node
from betimes.model import Duration, EventBatch, microseconds
from betimes.model.hints import known_options, nearest
from betimes.ordering import OrderingUnit
from betimes.ordering.clock import EVERY

Delays = Duration | Mapping[str, Duration] | None
"""One for all types, or by type; None keeps what was measured."""


@known_options
def recalibrate(
    old: Calibration,
    hierarchy: Hierarchy,
    *,
    jitter: Delays = None,
    network: Delays = None,
    processing: Delays = None,
    back_setting: Delays = None,
    events: Recording | None = None,
    source: str | None = None,
) -> Calibration:
    """Adapt an older configuration to a hierarchy, with some sub-delays replaced.

    `jitter` is given by types of input events, the others by types that detectors publish. With
    `events`, a piece of the new input, the jitter is measured, with `source` by the clocks of its
    sources; no detector runs. What is neither
    in the older configuration nor given is assumed, and listed in `notes`.

    >>> from betimes import Event, Hierarchy, calibrate
    >>> two = Hierarchy(clock="A")
    >>> two.add(lambda event: Event("low", event.ts), on="B", emits="low", name="low")
    >>> two.add(lambda event: Event("c", event.ts), on="low", emits="c", name="high")
    >>> old = calibrate(two, [Event(t, ts) for t, ts in [("A", 0), ("A", 9), ("B", 5), ("A", 10)]])
    >>> new = recalibrate(old, two, jitter={"B": 7}, network="1ms")
    >>> [(name, old.detectors[name].slack, new.detectors[name].slack) for name in old.detectors]
    [('low', 5, 7), ('high', 9, 1011)]
    """
    published = {type: None for node in hierarchy for type in node.emits}
    inputs = {type: None for node in hierarchy for type in node.on if type not in published}
    if inputs.pop(EVERY, ...) is None:
        inputs |= dict.fromkeys(t for each in old.detectors.values() for t in each.jitter)
    known = _Known(
        old,
        _given(jitter, "jitter", inputs),
        {
            name: _given(delays, name, published)
            for name, delays in (
                ("processing", processing), ("network", network), ("back_setting", back_setting),
            )
        },
        {} if events is None else measure_jitter(hierarchy, events, source),
        [],
    )  # fmt: skip
    nodes = {node.name: node for node in hierarchy}
    found: dict[str, Setting] = {}
    pseudo: dict[str, list[int]] = {}
    """Delays of the pseudo events that have arrived, by type."""
    for name, level in hierarchy.levels().items():
        node = nodes[name]
        its_jitter = known.jitter_of(node, inputs)
        arrived = [delay for type in node.on for delay in pseudo.get(type, ())]
        slack = max([*its_jitter.values(), *arrived], default=0)
        before = old.detectors.get(name, Setting(level))
        same = slack == before.slack
        emits = {type: known.sub_delays(name, type, same_slack=same) for type in node.emits}
        for type, parts in emits.items():
            pseudo.setdefault(type, []).append(slack + parts.total)
        found[name] = replace(before, level=level, slack=slack, jitter=its_jitter, emits=emits)
    return Calibration(
        hierarchy.identity(),
        found,
        f"adapted from: {old.measured_on}",
        notes=tuple(dict.fromkeys(known.assumed)),
    )


def measure_jitter(
    hierarchy: Hierarchy, events: Recording, source: str | None = None
) -> dict[str, dict[str, int]]:
    """The largest delay of each input type at each detector, from the input alone."""
    units = {
        node.name: OrderingUnit(
            clock=hierarchy.clock_of(node), on=None if EVERY in node.on else node.on, source=source
        )
        for node in hierarchy
    }
    probes = {node.name: Probe() for node in hierarchy}
    for given in batches_of(events)():
        batch = EventBatch.of(given)
        batch = batch.without_payload() if source is None else batch
        for name, unit in units.items():
            probes[name].watch(unit, batch, unit.feed(batch))
    return {
        node.name: {t: d for t, d in delays_at(units[node.name], probe).items() if node.takes(t)}
        for node, probe in zip(hierarchy, probes.values(), strict=True)
    }


@dataclass(frozen=True)
class _Known:
    """Where sub-delays come from: given values take precedence over measured ones."""

    old: Calibration
    jitter: Mapping[str, int]
    given: Mapping[str, Mapping[str, int]]
    measured: Mapping[str, Mapping[str, int]]
    assumed: list[str]

    def jitter_of(self, node: Node, inputs: Collection[str]) -> dict[str, int]:
        """The jitter of the inputs of a detector, by type."""
        mine = self.old.detectors.get(node.name)
        found = {}
        for type in inputs:
            if not node.takes(type):
                continue
            now = self.measured.get(node.name, {})
            if type in self.jitter:
                found[type] = self.jitter[type]
            elif type in now:
                found[type] = now[type]
            elif mine is not None and type in mine.jitter:
                found[type] = mine.jitter[type]
            else:
                found[type] = self._jitter_elsewhere(type)
        return found

    def _jitter_elsewhere(self, type: str) -> int:
        others = [d.jitter[type] for d in self.old.detectors.values() if type in d.jitter]
        if not others:
            raise CalibrationError(
                f"expected the jitter of {type!r} to be known, but it is not in the older "
                f"calibration; say how late such events are, as in jitter={{{type!r}: '50ms'}} "
                f"(--jitter {type}=50ms), or measure it"
            )
        return max(others)

    def sub_delays(self, name: str, type: str, *, same_slack: bool) -> SubDelays:
        """The sub-delays of what a detector publishes."""
        mine = self.old.detectors.get(name)
        before = None if mine is None else mine.emits.get(type)
        if before is None and type not in self.given["back_setting"]:
            self.assumed.append(
                f"{name} is new: assumed that it does not date {type} events back; if it does, say "
                f"how far (--back-setting {type}=50ms)"
            )
        if before is None or not same_slack:
            before = replace(before or SubDelays(), processing=self._longest_processing())
        now = {part: given[type] for part, given in self.given.items() if type in given}
        return replace(before, **now)

    def _longest_processing(self) -> int:
        every = (parts for each in self.old.detectors.values() for parts in each.emits.values())
        return max((parts.processing for parts in every), default=0)


def _given(delays: Delays, option: str, types: Iterable[str]) -> dict[str, int]:
    """What the user has given, by type."""
    if delays is None:
        return {}
    types = list(types)
    if not isinstance(delays, Mapping):
        return dict.fromkeys(types, microseconds(delays, option))
    for type in delays:
        if type not in types:
            kind = "takes" if option == "jitter" else "publishes"
            raise CalibrationError(
                f"expected {option} of a type that a detector {kind}, got {type!r}"
                f"{nearest(type, types)}"
            )
    return {type: microseconds(delay, f"{option} of {type}") for type, delay in delays.items()}
