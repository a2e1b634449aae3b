"""What a detector says for itself, over the options of the engine.

One detector may need its own clock because it reads another kind of sensor, may not speculate
because a wrong result costs too much, or has a state that is too large for many snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from betimes.engine.options import EngineOptions
from betimes.engine.snapshots.spacing import SnapshotModel
from betimes.engine.stages.retraction import Technique
from betimes.model.duration import Duration
from betimes.model.errors import OptionError
from betimes.model.identity import spelled_names
from betimes.ordering.clock import parse_clock


@dataclass(frozen=True)
class Own:
    """The settings of one detector; None is what the engine says."""

    clock: tuple[str, ...] | None = None
    slack: str | Duration | None = None
    margin: float | None = None
    attenuation: float | str | None = None
    retraction: Technique | None = None
    snapshots: str | int | SnapshotModel | None = None

    @classmethod
    def of(cls, detector: str, given: dict[str, Any]) -> Own:
        """Settings as a user writes them; an error names the detector."""
        try:
            found = cls(**(given | {"clock": parse_clock(given.get("clock"))}))
            EngineOptions(**found._options())
        except OptionError as error:
            raise OptionError(f"detector {detector!r}: {error}") from None
        return found

    def with_(self, detector: str, given: dict[str, Any]) -> Own:
        """The same settings, with some of them changed."""
        return Own.of(detector, vars(self) | given)

    def over(self, options: EngineOptions) -> EngineOptions:
        """The options of the engine for this detector."""
        own = self._options()
        return options.with_(**own) if own else options

    def wiring(self) -> dict[str, str]:
        """What makes it another detector, in words."""
        return {} if self.clock is None else {"clock": spelled_names(self.clock)}

    def facts(self, options: EngineOptions) -> dict[str, str]:
        """What else a saved state depends on, in words."""
        if self.slack is None and self.margin is None:
            return {}
        return self.over(options).policy.facts()

    def _options(self) -> dict[str, Any]:
        """Those of them that are options of an engine."""
        return {n: v for n, v in vars(self).items() if n != "clock" and v is not None}


NOTHING_OWN = Own()
