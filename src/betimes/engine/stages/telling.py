"""What a stage is about to tell: gathered while a batch is handled, then frozen as news."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.engine.news.news import News, Void
from betimes.engine.news.outputs import Outputs
from betimes.model.event import Event


class Telling:
    """What has happened at a stage so far in a batch."""

    __slots__ = (
        "_gone",
        "_listed",
        "_whys",
        "certain",
        "late",
        "made",
        "notices",
        "rejected",
        "voids",
    )

    def __init__(self) -> None:
        self.made: list[Outputs] = []
        self.voids: list[Void] = []
        self.late: list[tuple[Event, int, str]] = []
        self.rejected: list[tuple[Event, int]] = []
        self.notices: list[tuple[int, int]] = []
        self.certain: npt.NDArray[np.int64] | None = None
        self._listed: list[Outputs] = []
        self._whys: list[str] = []
        self._gone: list[Outputs] = []
        """What was taken back, listed or not."""

    def take_back(self, outputs: Outputs, why: str | list[str]) -> None:
        """Outputs are gone; say which, and why: all of them, or each."""
        if len(outputs):
            self._gone.append(outputs)
            self._listed.append(outputs)
            self._whys += [why] * len(outputs) if isinstance(why, str) else why

    def void(self, void: Void, outputs: Outputs) -> None:
        """Outputs are gone; only say since when."""
        self.voids.append(void)
        self._gone.append(outputs)

    @property
    def nothing(self) -> bool:
        """Whether nothing has happened so far."""
        return not (self.made or self._gone or self.late or self.rejected or self.notices)

    def outputs(self) -> tuple[Outputs, Outputs]:
        """What was made, and what is gone."""
        return Outputs.concat(self.made), Outputs.concat(self._gone)

    def news(
        self,
        made: Outputs,
        final: npt.NDArray[np.bool_] | None,
        confirmed: Outputs,
        may_change_from: int,
        reach: int,
    ) -> News:
        """Everything, frozen."""
        return News(
            made, final, Outputs.concat(self._listed), tuple(self._whys), tuple(self.voids),
            confirmed, tuple(self.late), tuple(self.rejected), tuple(self.notices),
            may_change_from, reach, self.certain,
        )  # fmt: skip
