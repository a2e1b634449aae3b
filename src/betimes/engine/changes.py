"""From news to changes: the rows that an engine returns, numbered."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import msgspec

from betimes.engine.news.news import News, Output
from betimes.engine.news.outputs import encode
from betimes.engine.stages.driver import Stage
from betimes.model.change import LATE, REJECTED, Change
from betimes.model.event import Event

_place = attrgetter("place")


class ChangeWriter:
    """Writes changes and numbers them; the orders of all keys share one."""

    def __init__(self) -> None:
        self.seq = 0
        """The number of the last change."""
        self.rejected = 0
        """Clock events that were taken out of the stream because they were too far ahead."""

    def write(
        self, stages: Mapping[str, Stage], told: Mapping[str, News], key: Any = None
    ) -> list[Change]:
        """The changes of a batch, from the news of each stage; with `order="key"`, of one key."""
        of_key = "" if key is None else f" {encode(key).decode()}"
        changes: list[Change] = []
        for name, news in told.items():
            changes += self._of_outputs(name, news)
            for event, late_by, which in news.late:
                payload = {**event.payload, "event": event.type, "late_by": late_by}
                cause = f"{event.type} came too late"
                change = self._aside(LATE, stages[name], event, which + of_key, payload, cause)
                changes.append(msgspec.structs.replace(change, detected_at=event.ts + late_by))
        rejected = {at: (name, e) for name, news in told.items() for e, at in news.rejected}
        for at, (name, event) in rejected.items():
            payload = {**event.payload, "event": event.type}
            cause = f"{event.type} is too far ahead of the clock (max_skew)"
            which = f"{at}{of_key}"
            changes.append(self._aside(REJECTED, stages[name], event, which, payload, cause))
        self.rejected += len(rejected)
        return changes

    def _of_outputs(self, name: str, news: News) -> list[Change]:
        """Changes about what one detector made: at most one for each output."""
        # In the order of their places: how a stage went back may depend on measured times and on
        # the tactic, and must not show in the rows.
        news.inserted.sort(key=_place)
        gone = {output.id: output for output in news.deleted}
        come = {output.id: output for output in news.inserted}
        changes = [
            self._change("delete", name, output, output.why)
            for output in sorted(news.deleted, key=_place)
            if output.id not in come
        ]
        for output in come.values():
            before = gone.get(output.id) if gone else None
            if before is None:
                changes.append(self._change("insert", name, output))
                continue
            output.told_final = before.told_final
            if output.final and not output.told_final:
                changes.append(self._change("confirm", name, output))
        changes += [
            self._change("confirm", name, output)
            for output in sorted(news.confirmed, key=_place)
            if not output.told_final
        ]
        return changes

    def _change(self, kind: Any, name: str, output: Output, cause: str | None = None) -> Change:
        """A row about an output; by default, its cause is the event that completed it."""
        self.seq += 1
        if kind != "delete":
            output.told_final = output.final
        event = output.event
        if cause is None:
            cause = f"{output.cause_event.type} at {output.cause_event.ts}"
        return Change(
            kind, "final" if output.told_final else "provisional", output.id, self.seq,
            event.type, event.ts, output.detected_at, output.slack, event.payload, name, cause,
        )  # fmt: skip

    def _aside(
        self, kind: str, stage: Stage, event: Event, which: str, payload: dict[str, Any], cause: str
    ) -> Change:
        """A row about an event that no detector will see."""
        self.seq += 1
        name = stage.node.name
        content = f"{kind} {name} {event.type} {event.ts} {which}".encode()
        return Change(
            "insert", "final", blake2b(content, digest_size=12).hexdigest(), self.seq, kind,
            event.ts, max(stage.finality.final_to, 0), stage.unit.stats.slack, payload, name, cause,
        )  # fmt: skip
