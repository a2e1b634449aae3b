"""Observers: what happens at a stage, told to those who want to know.

Calibration, statistics and tests look at stages through this interface instead of reaching inside.
An observer must not change what it is shown. A stage without observers does nothing for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from betimes.engine.news.news import Output
from betimes.model.batch import EventBatch
from betimes.ordering import Ordered

if TYPE_CHECKING:
    from betimes.engine.stages.driver import Stage


class Observer:
    """Override what you want to see; everything else is ignored.

    >>> class Counter(Observer):
    ...     made_here = 0
    ...
    ...     def made(self, stage, outputs):
    ...         self.made_here += len(outputs)
    """

    def arrived(self, stage: Stage, batch: EventBatch, answer: Ordered) -> None:
        """A batch came to the ordering unit; the answer has what it released and settled.

        At the end of the stream, an empty batch comes, and the answer has all that was held.
        """

    def replayed(self, stage: Stage, key: Any, events: int) -> None:
        """A key went back and handled this many events again."""

    def made(self, stage: Stage, outputs: Sequence[Output]) -> None:
        """Outputs were published."""

    def retracted(self, stage: Stage, outputs: Sequence[Output]) -> None:
        """Outputs were taken back."""

    def settled(self, stage: Stage, ts: int) -> None:
        """Everything up to this time is settled and final."""
