"""Which kind of stage runs a detector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from betimes.engine.hierarchy import Node
from betimes.engine.options import EngineOptions
from betimes.engine.snapshots.spacing import parse_snapshots
from betimes.engine.stages.columns.stage import ColumnStage
from betimes.engine.stages.driver import Stage, StageOptions
from betimes.engine.stages.observers import Observer
from betimes.engine.stages.row_stage import RowStage
from betimes.engine.stages.slices import BatchStage
from betimes.model import microseconds
from betimes.ordering import OrderingUnit


def make_stage(
    node: Node,
    rank: int,
    unit: OrderingUnit,
    options: EngineOptions,
    *,
    clock: tuple[str, ...] | None,
    time: Callable[[], float],
    observers: Sequence[Observer],
) -> Stage:
    kind: type[Stage] = RowStage
    if rank < 2000 and node.compiles:
        kind = ColumnStage
    elif rank < 2000 and node.maker.kind == "batch":
        kind = BatchStage
    known = StageOptions(
        clock=clock, retraction=options.retraction, late=options.late, errors=options.errors,
        retention=microseconds(options.retention), grouped=options.by is not None,
        snapshots=parse_snapshots(options.snapshots), time=time, observers=tuple(observers),
    )  # fmt: skip
    return kind(node, rank, unit, known)
