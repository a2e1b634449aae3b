"""What an ordering unit can tell about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from betimes.model.duration import readable
from betimes.model.event import PSEUDO
from betimes.ordering import kernel
from betimes.ordering.clock import EVERY
from betimes.ordering.loop import Loop
from betimes.ordering.sources import Sources, SourceStats, known_slack
from betimes.ordering.types import Types


class OrderingStats(msgspec.Struct, frozen=True):
    """Counts and readings of one ordering unit.

    Values are microseconds of stream time; when printed, durations are shown with their unit.
    """

    arrived: int
    """Events fed, duplicates left out."""
    released: int
    """Events handed to the detector at least once."""
    settled: int
    """Events that will never be handed out again."""
    buffered: int
    """Events held now."""
    waiting: int
    """Those of them that were not handed out yet."""
    peak: int
    """The most events ever held at once."""
    late: int
    """Events that arrived after a later event had settled."""
    replayed: int
    """How many times an event was handed out again because another one landed before it."""
    rejected: int
    """Clock events removed from the stream because they were implausibly far ahead."""
    duplicates: int
    """Events dropped because they had been delivered before."""
    clock: int | None
    """Stream time; None until the first clock event arrives."""
    clock_updates: int
    clock_types: tuple[str, ...]
    """Types that currently move the clock."""
    clock_reason: str
    """Why these types were chosen."""
    clock_offsets: dict[str, int]
    """How far each clock type lags behind the leading one."""
    slack: int
    """The longest time that an event is held back."""
    largest_delay: int
    policy: str
    attenuation: float
    types: dict[str, int]
    """Number of events of each type."""
    delays: dict[str, int] = {}
    """The largest delay of each type that is ordered, by the clock of its source if it has one."""
    sources: dict[Any, SourceStats] = {}
    """If the stream has sources: the clock and the slack of each."""
    sources_forgotten: int = 0
    """How many sources were forgotten because they have not been heard for long."""
    waits_for: Any = None
    """The slowest of the sources that count; nothing settles without it."""

    def brief(self) -> str:
        """The readings that matter most, on one line."""
        clock = f"clock {', '.join(self.clock_types)} at {self.clock}"
        return (
            f"{'no clock event yet' if self.clock is None else clock}, "
            f"slack {readable(self.slack)} ({self.policy}), attenuation {self.attenuation:g}, "
            f"{self.buffered:,} of {self.arrived:,} events held, {self.late:,} late"
            + ("" if self.waits_for is None else f", waits for source {self.waits_for!r}")
        )

    def __repr__(self) -> str:
        shown = {name: repr(getattr(self, name)) for name in self.__struct_fields__}
        shown["slack"] = readable(self.slack)
        shown["largest_delay"] = readable(self.largest_delay)
        shown["clock_offsets"] = spelled(self.clock_offsets)
        shown["delays"] = spelled(self.delays)
        return f"OrderingStats({', '.join(f'{name}={text}' for name, text in shown.items())})"


def readings(
    loop: Loop, types: Types, sources: Sources | None, duplicates: int, why: str
) -> OrderingStats:
    """What these parts of a unit tell about it."""
    read = loop.state.tolist()
    names, table, clock = types.names, types.table, types.moving()
    slack = read[kernel.SLACK]
    more: dict[str, Any] = {"largest_delay": read[kernel.TOP], "delays": types.delays}
    if sources is not None and loop.clocks is not None:
        more |= loop.clocks.readings(sources)
        slack = int(known_slack(read[kernel.NOW], slack))
    return OrderingStats(
        arrived=read[kernel.ARRIVALS],
        released=read[kernel.N_RELEASED],
        settled=read[kernel.N_SETTLED],
        buffered=read[kernel.SIZE],
        waiting=read[kernel.SIZE] - read[kernel.RELEASED],
        peak=read[kernel.PEAK],
        late=read[kernel.N_LATE],
        replayed=read[kernel.N_REPLAYED],
        rejected=read[kernel.N_REJECTED],
        duplicates=duplicates,
        clock=None if read[kernel.NOW] == kernel.NEVER else read[kernel.NOW],
        clock_updates=read[kernel.UPDATES],
        clock_types=tuple(names[i] for i in clock),
        clock_reason=why,
        clock_offsets={names[i]: int(table[kernel.OFFSET, i]) for i in clock},
        slack=slack,
        policy=loop.policy.label,
        attenuation=loop.attenuation,
        types=dict(zip(names, table[kernel.COUNT].tolist(), strict=True)),
        **more,
    )


def spelled(durations: Mapping[str, int]) -> str:
    """Durations by name, with their units.

    >>> spelled({"ball": 20_000})
    "{'ball': 20 ms}"
    """
    return "{" + ", ".join(f"{name!r}: {readable(us)}" for name, us in durations.items()) + "}"


def reason(clock: Sequence[str], types: Sequence[str], *, moved: bool) -> str:
    """Why the clock is as it is, for clock types that the user has named.

    >>> reason(("X",), ("A", "B"), moved=False)
    'no event of the clock type X has arrived, only A, B'
    >>> reason(("X", "Y"), (), moved=False)
    'no event of the clock types X, Y has arrived, nor any other'
    """
    if clock == (EVERY,):
        return "every type moves the clock"
    if moved:
        return "designated"
    others = [name for name in types if name != PSEUDO]
    came = f"only {', '.join(others)}" if others else "nor any other"
    named = f"clock type{'s' if len(clock) > 1 else ''} {', '.join(clock)}"
    return f"no event of the {named} has arrived, {came}"
