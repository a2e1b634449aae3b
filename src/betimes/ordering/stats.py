"""What an ordering unit can tell about itself."""

from __future__ import annotations

import msgspec


class OrderingStats(msgspec.Struct, frozen=True):
    """Counts and readings of one ordering unit; times in microseconds of stream time."""

    arrived: int
    """Events fed, duplicates left out."""
    released: int
    """Events handed out at least once."""
    settled: int
    """Events given up for good."""
    buffered: int
    """Events held now."""
    peak: int
    """The most events ever held at once."""
    late: int
    """Events that came after something later had settled."""
    replayed: int
    """Hand-outs that were repeated because an event landed before them."""
    rejected: int
    """Clock events absurdly far ahead, taken out of the stream."""
    duplicates: int
    """Events that had been delivered before, dropped."""
    clock: int | None
    """Stream time; None as long as no clock event has come."""
    clock_updates: int
    clock_types: tuple[str, ...]
    """Types that move the clock now."""
    clock_reason: str
    """Why these."""
    clock_offsets: dict[str, int]
    """How far each clock type stays behind the leading one."""
    slack: int
    """How long an event is held back at most."""
    largest_delay: int
    policy: str
    attenuation: float
    types: dict[str, int]
    """Events by type."""
