"""Failures of detectors, as far as they are known.

A failure may be due to an event that has not arrived yet, so it only counts if it persists when its
place is final. Then it is counted, and no longer if a late event repairs it after all. One that
stops the engine cannot be repaired, and before delays are known, much is late. So unless the stream
is calibrated, or late events are not repaired, it stops the engine only some time later: after what
`retention` guarantees.
"""

from __future__ import annotations

from typing import Any

from betimes.engine.news.outputs import TIME, Place
from betimes.engine.options import EngineOptions
from betimes.engine.stages.runner import DetectorFailed
from betimes.model.change import THE_END

LAST: Place = (2**63, 0, 0)
"""After all others."""
Where = tuple[Any, Place]
"""A key, and a place in its order."""


class Failures:
    """The failures of one detector that a replay may still remove."""

    def __init__(self, errors: str, patience: int = 0) -> None:
        self._stops = errors == "stop"
        self._patience = patience if self._stops else 0
        """How long after its place is final a failure counts."""
        self._open: dict[Where, DetectorFailed] = {}
        self._judged: set[Where] = set()
        """Failures that were counted."""
        self._mended = 0
        """How many of those have vanished since."""

    @classmethod
    def of(cls, options: EngineOptions) -> Failures:
        """None so far, with what the options of an engine say about them."""
        repairs = options.late == "repair" and options.calibration is None
        return cls(options.errors, options.kept.least if repairs else 0)

    def __bool__(self) -> bool:
        return bool(self._open or self._judged or self._mended)

    def note(self, key: Any, place: Place, failure: DetectorFailed) -> None:
        """The detector of a key fails at a place."""
        if (key, place) not in self._judged:
            self._open[key, place] = failure

    def mend(self, key: Any, low: Place, high: Place = LAST, *, deadlines: bool = False) -> None:
        """Between these places, the detector of a key no longer fails, or only not at deadlines."""
        if not (self._open or self._judged):
            return

        def gone(where: Where) -> bool:
            at = where[1]
            return where[0] == key and low <= at <= high and (at[1] == TIME or not deadlines)

        for where in list(filter(gone, self._open)):
            del self._open[where]
        for where in list(filter(gone, self._judged)):
            self._judged.remove(where)
            self._mended += 1

    def judge(self, final_to: int) -> int:
        """A failure whose place is final is the detector's fault: raise it, or count it.

        Returns how many more there are than before; a late event may have repaired some.
        """
        sure = final_to if final_to >= THE_END else final_to - self._patience
        ripe = [where for where in self._open if where[1][0] <= sure]
        for where in ripe:
            failure = self._open.pop(where)
            if self._stops:
                raise failure
            self._judged.add(where)
        mended, self._mended = self._mended, 0
        return len(ripe) - mended

    def forget(self, before: int) -> None:
        """Nothing goes back to places before this time."""
        if self._judged:
            self._judged = {where for where in self._judged if where[1][0] >= before}

    def state_of(self) -> tuple[dict[Where, str], set[Where]]:
        """Everything needed to resume elsewhere."""
        return {where: str(error) for where, error in self._open.items()}, self._judged

    def resume(self, kept: tuple[dict[Where, str], set[Where]]) -> None:
        """Resume from what `state_of` kept."""
        failures, self._judged = kept
        self._open = {where: DetectorFailed(message) for where, message in failures.items()}
