"""The oracle: sort the events, then run the detectors once. This is what an engine must find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from betimes.engine import Hierarchy
from betimes.engine.node import Node
from betimes.model import Derived, Event, EventBatch
from betimes.model.change import THE_END, content
from betimes.model.hints import known_options

Placed = tuple[tuple[int, int, Any], Event, Any]


@known_options
def oracle(
    hierarchy: Hierarchy,
    events: Iterable[Event],
    *,
    by: str | None = None,
    order: str = "shared",
    advance: bool = True,
) -> Counter[tuple[str, int, str]]:
    """What the hierarchy detects if the events arrive in perfect order, in the form of `fold`.

    At the end, time moves past every open window; with `advance=False`, it stays at the last event:
    with `order="key"`, that is the last event of each key.

    >>> def fast(event):
    ...     if event["v"] > 5:
    ...         return Event("fast", event.ts)
    >>> speed = Hierarchy(clock="position")
    >>> speed.add(fast, on="position", emits="fast")
    >>> oracle(speed, [Event("position", 2, {"v": 9}), Event("position", 1, {"v": 1})])
    Counter({('fast', 2, '{}'): 1})
    """
    known: list[Placed] = [
        ((event.ts, 0, seq), event, None if by is None else event.payload[by])
        for seq, event in enumerate(events)
    ]
    ends: dict[Any, int] = {}
    for (ts, _, _), _, group in known:
        mine = group if order == "key" else None
        ends[mine] = THE_END if advance else max(ts, ends.get(mine, -1))
    nodes = {node.name: node for node in hierarchy}
    found: Counter[tuple[str, int, str]] = Counter()
    for name, level in hierarchy.levels().items():
        node = nodes[name]
        detectors: dict[Any, Any] = {}
        made: list[Placed] = []
        mine = sorted(
            (k for k in known if k[1].type in node.on or ("*" in node.on and k[0][1] == 0)),
            key=lambda k: k[0],
        )
        for place, event, group in mine:
            key = (group, _key(node, event))
            if key not in detectors:
                detectors[key] = node.maker.make()
            due = run_out(detectors[key], place[0], key) if node.maker.timed else []
            results = [
                (place, n, e) for n, e in enumerate(call(node.maker.kind, detectors[key], event))
            ]
            for cause, n, output in [*due, *results]:
                tie: tuple[Any, ...] = (name, cause, n)
                if node.maker.kind == "batch":
                    tie = (name, encoded(key), cause, n)
                made.append(((output.ts, level, tie), output, group))
        for key, detector in detectors.items() if node.maker.timed else ():
            end = ends[key[0] if order == "key" else None]
            for cause, n, output in run_out(detector, end, key):
                made.append(((output.ts, level, (name, cause, n)), output, key[0]))
        found.update(content(event) for _, event, _ in made)
        known += made
    return found


def _key(node: Node, event: Event) -> Any:
    if node.by is None:
        return None
    # Events that need no key form a separate one.
    return event.payload.get(node.by) if node.may_lack_key(event.type) else event.payload[node.by]


def run_out(detector: Any, ts: int, key: Any) -> list[tuple[tuple[int, int, Any], int, Event]]:
    """What a detector makes at its deadlines up to a time, with their places, and numbered."""
    made = []
    while detector.deadline is not None and detector.deadline <= ts:
        deadline = detector.deadline
        place = (deadline, -1, encoded(key))
        made += [(place, n, e) for n, e in enumerate(listed(detector.on_time(deadline)))]
    return made


def encoded(key: Any) -> bytes:
    return msgspec.json.encode(key, enc_hook=repr, order="sorted")


def call(kind: str, detector: Any, event: Event) -> list[Event]:
    """What a detector of any kind returns for one event."""
    if kind != "batch":
        return listed(detector(event) if kind == "function" else detector.on_event(event))
    batch = EventBatch.from_rows([event])
    return events_of(detector.on_batch(batch), batch)


def events_of(result: Any, batch: EventBatch) -> list[Event]:
    """What `on_batch` returned for a batch, event by event in row order."""
    last = len(batch) - 1
    made: list[tuple[int, Event]] = []
    for item in listed(result):
        if isinstance(item, Derived):
            made += zip(item.rows.tolist(), item.events(batch.ts), strict=True)
        else:
            made.append((last, item))
    return [event for _, event in sorted(made, key=lambda pair: pair[0])]


def listed(result: Any) -> list[Any]:
    if result is None:
        return []
    return [result] if isinstance(result, Event | Derived) else list(result)
