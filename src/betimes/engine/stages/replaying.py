"""Stages that hand events to Python detectors: what going back has in common for all of them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from betimes.engine.hierarchy import Node
from betimes.engine.news.news import News, Place, Void
from betimes.engine.snapshots.spacing import Costs
from betimes.engine.stages.driver import Ints, Stage, StageOptions
from betimes.engine.stages.handling import Disturbance, Replay
from betimes.engine.stages.runner import DetectorFailed
from betimes.ordering import Ordered, OrderingUnit


class Handler(Protocol):
    """Whatever calls the detectors of a stage."""

    failures: dict[tuple[Any, Place], DetectorFailed]
    """Where detectors fail as things stand, by key and place."""
    judged: set[tuple[Any, Place]]
    """Failures that were counted."""

    @property
    def costs(self) -> Costs: ...


class ReplayingStage(Stage):
    """A stage whose detectors are called again when they went back, and may fail."""

    handling: Handler

    def __init__(self, node: Node, rank: int, unit: OrderingUnit, options: StageOptions) -> None:
        super().__init__(node, rank, unit, options)
        self._errors = options.errors

    def _first_handed(self, answer: Ordered, at: Ints, row: int) -> tuple[Ints, Ints, Ints]:
        """What the unit hands out for the first time, in order: rows, times, arrivals of it."""
        released, replayed = answer.released, answer.replayed
        rows, places, ts = released.rows, released.at, released.ts
        if len(replayed):
            new = replayed.at >= 0
            rows = np.concatenate((replayed.rows[new], rows))
            places = np.concatenate((replayed.at[new], places))
            ts = np.concatenate((replayed.ts[new], ts))
        if len(replayed) or len(answer.late):
            order = np.lexsort((rows, ts))
            rows, places, ts = rows[order], places[order], ts[order]
        return rows, ts, at.take(places - row, mode="clip") if len(at) else at

    def _republish(
        self, key: Any, replay: Replay, disturbance: Disturbance, news: News, *, on_demand: bool
    ) -> None:
        """Tell what a replay changed: the differences, or all since if retraction is full.

        The technique is that of the replay: one that ended early has not seen all since.
        """
        old, new = replay.old, replay.new
        if not old and not new:
            self._note_replay(replay, 0)
            return
        stay = {id(output) for output in new} & {id(output) for output in old}
        gone = [output for output in old if id(output) not in stay]
        self._note_replay(replay, len(gone))
        if on_demand:
            for output in gone:
                output.why = disturbance.why
            news.deleted += gone
        else:
            # A detector per batch may be handed its events in other batches, and so tell other
            # causes than before.
            since = min([disturbance.place, *(output.cause for output in gone)])
            gone = [output for output in old if output.cause >= since]
            stay -= {id(output) for output in gone}
            news.voids.append(Void(key, since, disturbance.why))
        for output in gone:
            self._open.pop(output.id, None)
        self.counts.retracted += len(gone)
        self._publish([output for output in new if id(output) not in stay], news)

    def _note_replay(self, replay: Replay, changed: int) -> None:
        self.retraction.note(
            outputs=len(replay.old),
            changed=changed,
            spared=replay.spared,
            comparing=replay.comparing,
            handling=self.handling.costs.process,
        )

    def _judge_failures(self) -> None:
        """A failure whose place is final is the detector's own."""
        failures = self.handling.failures
        if not failures:
            return
        for place in [place for place in failures if place[1][0] <= self.final_to]:
            failure = failures.pop(place)
            if self._errors == "stop":
                raise failure
            self.counts.errors += 1
            self.handling.judged.add(place)

    def _settle(self, news: News) -> None:
        super()._settle(news)
        judged = self.handling.judged
        if judged:
            judged -= {place for place in judged if place[1][0] < self.reach}
