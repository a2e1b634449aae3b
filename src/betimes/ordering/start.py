"""What an ordering unit knows before the first event.

A unit that knows nothing stumbles: each delay that exceeds all before it costs a late event. One
that was calibrated starts with what an earlier run of the stream has taught.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Start:
    """Where learning begins: slack, clock type and offsets, as they were found in an earlier run.

    The policy goes on from there: `largest` may grow, `decaying` fades, `quantile` holds on to the
    slack for one window of events. A clock type is only for units that learn theirs, offsets are
    only for those with several clock types.
    """

    slack: int = 0
    clock: str | None = None
    offsets: Mapping[str, int] = field(default_factory=dict)


NOTHING_KNOWN = Start()
