"""From news to changes: the rows that an engine returns, numbered.

A `Reporter` remembers what has been said: which outputs were told as provisional, and neither
confirmed nor taken back since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from betimes.engine.news.digests import encode
from betimes.engine.news.news import News
from betimes.engine.news.outputs import CAUSE, DETECTED, SLACK, Output, Outputs
from betimes.engine.stages.driver import Stage
from betimes.model.change import (
    LATE,
    REJECTED,
    Change,
    ChangePart,
    ChangeType,
    Parts,
    spelled_cause,
)
from betimes.model.event import Event

Flags = npt.NDArray[np.bool_]


class ChangeWriter:
    """Numbers changes; the orders of all keys share one."""

    def __init__(self) -> None:
        self.seq = 0
        """The number of the last change."""
        self.rejected = 0
        """Clock events that were taken out of the stream because they were too far ahead."""

    def number(self, count: int) -> range:
        """The next numbers."""
        first = self.seq + 1
        self.seq += count
        return range(first, first + count)


class Standing(NamedTuple):
    """What a row about an event that nobody sees needs to know of the stage that left it out."""

    slack: int
    final_to: int

    @classmethod
    def of(cls, stage: Stage) -> Standing:
        return cls(stage.unit.stats.slack, stage.finality.final_to)


class Reporter:
    """Writes the changes of one order: what its detectors have found, and what they leave aside."""

    def __init__(self, writer: ChangeWriter, key: Any = None) -> None:
        self._writer = writer
        self._of_key = "" if key is None else f" {encode(key).decode()}"
        """With `order="key"`, what tells the rows of one key from those of another."""
        self.provisional: dict[str, set[str]] = {}
        """What was told as provisional, by detector."""

    def report(self, told: Mapping[str, News], standing: Callable[[str], Standing]) -> Parts:
        """The changes of a batch, from the news of each stage and where it stands."""
        parts: Parts = []
        for name, news in told.items():
            if not news.quiet:
                parts += self._of_outputs(name, news)
            for event, late_by, which in news.late:
                payload = {**event.payload, "event": event.type, "late_by": late_by}
                cause = f"{event.type} came too late"
                when = event.ts + late_by
                slack = standing(name).slack
                parts.append(self._aside(LATE, name, slack, event, which, payload, cause, when))
        rejected = {at: (name, e) for name, news in told.items() for e, at in news.rejected}
        for at, (name, event) in rejected.items():
            payload = {**event.payload, "event": event.type}
            cause = f"{event.type} is too far ahead of the clock (max_skew)"
            slack, final_to = standing(name)
            which, when = str(at), max(final_to, 0)
            parts.append(self._aside(REJECTED, name, slack, event, which, payload, cause, when))
        self._writer.rejected += len(rejected)
        return parts

    def _of_outputs(self, name: str, news: News) -> Iterable[ChangePart | list[Change]]:
        """Changes about what one detector made: at most one for each output."""
        # In the order of their places: how a stage went back may depend on measured times and on
        # the tactic, and must not show in the rows.
        open_ = self.provisional.setdefault(name, set())
        inserted, final, deleted = news.inserted, news.final, news.deleted
        both = set(deleted.ids).intersection(inserted.ids) if len(deleted) else set[str]()
        if len(deleted) > len(both):
            yield self._gone(name, deleted, news.whys, both, open_)
        again: Outputs | None = None
        if both:
            known = np.array([match in both for match in inserted.ids])
            stays = np.flatnonzero(known if final is None else known & final)
            again = inserted.pick(stays)
            fresh = np.flatnonzero(~known)
            inserted, final = inserted.pick(fresh), None if final is None else final[fresh]
        if len(inserted):
            inserted, final = _in_order(inserted, final)
            if final is not None:
                open_.update(inserted.ids_of((~final).nonzero()[0]))
            yield self._part("insert", name, inserted, final)
        for outputs in (again, news.confirmed):
            if outputs is not None and len(outputs):
                told = outputs.where(open_.__contains__).in_order()
                open_.difference_update(told.ids)
                if len(told):
                    yield self._part("confirm", name, told, None)

    def _gone(
        self, name: str, deleted: Outputs, whys: tuple[str, ...], both: set[str], open_: set[str]
    ) -> ChangePart | list[Change]:
        rows = [row for row, match in enumerate(deleted.ids) if match not in both]
        places = deleted.places
        rows.sort(key=places.__getitem__)
        gone = deleted.pick(np.array(rows, np.int64))
        final = np.array([match not in open_ for match in gone.ids])
        open_.difference_update(gone.ids)
        return self._part("delete", name, gone, final, [whys[row] for row in rows])

    def _part(
        self,
        kind: ChangeType,
        name: str,
        outputs: Outputs,
        final: Flags | None,
        causes: list[str] | None = None,
    ) -> ChangePart | list[Change]:
        if outputs.made_one_by_one:
            return self._rows(kind, name, outputs.rows, final, causes)
        numbers = outputs.numbers
        why: Any = causes
        if causes is None:
            why = outputs.cause_types, numbers[CAUSE]
        return ChangePart(
            kind, final, outputs.id_column(), self._writer.number(len(outputs)), outputs.events,
            numbers[DETECTED], numbers[SLACK], name, why,
        )  # fmt: skip

    def _rows(
        self,
        kind: ChangeType,
        name: str,
        outputs: list[Output],
        final: Flags | None,
        causes: list[str] | None,
    ) -> list[Change]:
        """What was made one by one stays rows."""
        sure = repeat(True) if final is None else final.tolist()
        why = causes or [spelled_cause(output.cause_type, output.cause[0]) for output in outputs]
        numbers = self._writer.number(len(outputs))
        # By position: this runs for every output.
        return [
            Change(
                kind, "final" if known else "provisional", output.id, seq, output.event.type,
                output.event.ts, output.detected_at, output.slack, output.event.payload, name,
                cause,
            )
            for output, seq, known, cause in zip(outputs, numbers, sure, why)  # noqa: B905 - slow
        ]  # fmt: skip

    def _aside(
        self,
        kind: str,
        name: str,
        slack: int,
        event: Event,
        which: str,
        payload: dict[str, Any],
        cause: str,
        when: int,
    ) -> list[Change]:
        """A row about an event that no detector will see."""
        content = f"{kind} {name} {event.type} {event.ts} {which}{self._of_key}".encode()
        match_id = blake2b(content, digest_size=12).hexdigest()
        (seq,) = self._writer.number(1)
        return [Change(
            "insert", "final", match_id, seq, kind, event.ts, when, slack,
            payload, name, cause,
        )]  # fmt: skip


def _in_order(outputs: Outputs, final: Flags | None) -> tuple[Outputs, Flags | None]:
    """Outputs by place, with their flags."""
    order = outputs.order()
    if order is None:
        return outputs, final
    return outputs.pick(order), None if final is None else final[order]
