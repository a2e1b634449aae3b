"""Observers: they are told what happens at a stage.

Calibration, statistics and tests watch stages through this interface instead of reaching inside. An
observer must not change what it is shown. Without observers, a stage does no extra work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from betimes.engine.news.outputs import Outputs
from betimes.model.batch import EventBatch
from betimes.ordering import Ordered

if TYPE_CHECKING:
    from betimes.engine.stages.driver import Stage


class Observer:
    """Override the methods for what you want to see; the others do nothing.

    >>> class Counter(Observer):
    ...     made_here = 0
    ...
    ...     def made(self, stage, outputs):
    ...         self.made_here += len(outputs)
    """

    def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:
        """A batch came to the ordering unit; the answer says what it released and settled.

        At the end of the stream, the batch is empty, and the answer has everything that was held.
        """

    def replayed(self, stage: Stage, key: Any, events: int) -> None:
        """A key went back and handled this many events again."""

    def made(self, stage: Stage, outputs: Outputs) -> None:
        """Outputs were published."""

    def retracted(self, stage: Stage, outputs: Outputs) -> None:
        """Outputs were taken back."""

    def settled(self, stage: Stage, ts: int) -> None:
        """Everything up to this time is settled and final."""
