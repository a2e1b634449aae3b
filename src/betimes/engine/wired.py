"""The stages of a hierarchy, each with its place in it: all, or those that live in one place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from betimes.engine.hierarchy import Hierarchy
from betimes.engine.options import EngineOptions
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.observers import Observer
from betimes.ordering import OrderingUnit
from betimes.ordering.clock import EVERY
from betimes.ordering.sources import Sources
from betimes.ordering.start import NOTHING_KNOWN
from betimes.ordering.workspace import Workspace


def wired(
    hierarchy: Hierarchy,
    options: EngineOptions,
    *,
    time: Callable[[], float],
    workspace: Workspace,
    observers: Sequence[Observer] = (),
    cores: int | None = None,
    foresight: Any = None,
    sources: Sources | None = None,
    names: Collection[str] | None = None,
) -> dict[str, Stage]:
    """A stage for each detector, lowest level first; with `names`, only for these.

    Levels, and what each stage reads, are those of the whole hierarchy.
    """
    known = options.calibration.detectors if options.calibration else {}  # type: ignore[union-attr]
    nodes = {node.name: node for node in hierarchy}
    stages: dict[str, Stage] = {}
    for name, level in hierarchy.levels().items():
        if names is not None and name not in names:
            continue
        node, on = nodes[name], nodes[name].on
        own, clock = node.own.over(options), hierarchy.clock_of(node)
        unit = OrderingUnit(
            clock=clock, on=None if EVERY in on else on,
            # What a detector says for itself is meant for its level.
            slack=own.policy.at_level(level if node.own.slack is None else 1),
            max_skew=options.max_skew,
            start=known[name].start if name in known else NOTHING_KNOWN,
            source=sources, quiet=options.quiet, workspace=workspace,
        )  # fmt: skip
        stage = stages[name] = Stage(
            node, level, unit, own, clock=clock, time=time,
            observers=observers, cores=cores, foresight=foresight,
        )  # fmt: skip
        stage.reads = tuple(n for n, other in nodes.items() if set(on) & set(other.emits))
        if stage.reads and stage.unit.clocks is not None:
            stage.unit.clocks.listen_below()
    return stages
