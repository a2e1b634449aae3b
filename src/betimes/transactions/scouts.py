"""Scouts: transactions that run ahead of the engine, where the events of a batch are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from time import perf_counter
from typing import Any

from betimes.engine import Hierarchy
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.model.codec import CheckpointError, dumps
from betimes.model.event import Event
from betimes.transactions.copies import Task, run_on
from betimes.transactions.foresight import WHAT, Memo
from betimes.transactions.operator import Transactional
from betimes.transactions.versions import Base, Versions


def has_scouts(node: Node, options: EngineOptions) -> bool:
    """Whether the transactions of a detector may run ahead of the engine."""
    operator, by = node.maker.source, node.by or options.by
    return isinstance(operator, Transactional) and operator.may_run_ahead and by is None


def run_ahead(hierarchy: Hierarchy, states: Mapping[str, Base], events: Sequence[Event]) -> bytes:
    """Run the events of a part of a batch on copies of states, by operator; what came of it."""
    found: dict[str, tuple[float, list[Memo]]] = {}
    ordered = sorted(events, key=attrgetter("ts"))
    for node in hierarchy:
        base = states.get(node.name)
        if base is None:
            continue
        began, operator = perf_counter(), node.maker.source
        mine = [event for event in ordered if node.takes(event.type)]
        tasks: list[Task] = [((row, 0, 0), event, []) for row, event in enumerate(mine)]
        ran = run_on(Versions(base), operator.execute, operator.state, tasks)
        memos = [
            (event.type, event.ts, event.payload, record)
            for event, record in zip(mine, ran, strict=True)
            if record is not None
        ]
        found[node.name] = perf_counter() - began, memos
    try:
        return dumps(found, WHAT)
    except CheckpointError:
        some = {name: (took, list(filter(_is_data, made))) for name, (took, made) in found.items()}
        return dumps(some, WHAT)


def _is_data(memo: Any) -> bool:
    try:
        dumps(memo, WHAT)
    except CheckpointError:
        return False
    return True
