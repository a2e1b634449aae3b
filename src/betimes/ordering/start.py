"""What an ordering unit knows before the first event.

A unit that knows nothing makes mistakes: each delay longer than all before it costs a late event.
A calibrated unit starts with what an earlier run of the stream has learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Start:
    """Where learning begins: slack, clock type and offsets, as found in an earlier run.

    The policy continues from there: `largest` may grow, `decaying` decays, `quantile` keeps the
    slack for one window of events. The clock type applies only to units that learn theirs, offsets
    only to units with several clock types.
    """

    slack: int = 0
    clock: str | None = None
    offsets: Mapping[str, int] = field(default_factory=dict)


NOTHING_KNOWN = Start()
