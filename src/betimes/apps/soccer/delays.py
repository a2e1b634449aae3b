"""How long positions are in transit from a sensor to their reader; `disorder` explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from betimes.model import OptionError

LARGEST = 64
"""The largest number of positions in a packet."""


@dataclass(frozen=True)
class Delays:
    """How long positions are in transit; all times in microseconds."""

    ball_jitter: int = 5_000
    """Jitter of balls: from 0 to this value."""
    jitter_least: int = 5_000
    jitter_typical: int = 15_000
    """Mean of the jitter above the minimum."""
    jitter_most: int = 100_000
    packet: int = 10
    """Number of positions that a sensor sends in one packet."""
    ball_packet: int = 1
    packet_wait: int = 50_000
    """A packet is sent if its sensor has been silent for this long."""
    network_least: int = 100
    network_most: int = 900
    burst_every: int = 0
    """Mean time between two bursts; 0: none."""
    burst_least: int = 100_000
    burst_most: int = 300_000
    """How long nothing gets through before a burst."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise OptionError(
                    f"expected {option.name} to be a whole number, 0 or more (microseconds, or "
                    f"positions per packet), got {option.name}={value!r}"
                )
        for least, most in (
            ("jitter_least", "jitter_most"),
            ("network_least", "network_most"),
            ("burst_least", "burst_most"),
        ):
            if getattr(self, least) > getattr(self, most):
                raise OptionError(
                    f"expected {least} to be at most {most}, got {least}={getattr(self, least)}, "
                    f"{most}={getattr(self, most)}"
                )
        for name in ("packet", "ball_packet"):
            if not 1 <= getattr(self, name) <= LARGEST:
                raise OptionError(
                    f"expected {name} to be from 1 to {LARGEST}, got {name}={getattr(self, name)}"
                )
        if 0 < self.burst_every < 2 * self.burst_most:
            raise OptionError(
                "expected burst_every to be 0 or at least twice burst_most, got "
                f"burst_every={self.burst_every}, burst_most={self.burst_most}"
            )

    @property
    def most(self) -> int:
        """No position of a sensor that reports steadily, 200 times a second, is later than this."""
        packing = (self.packet - 1) * 5_000
        burst = self.burst_most if self.burst_every else 0
        return packing + self.jitter_most + self.network_most + burst


LAN = Delays()
PRESETS: Mapping[str, Delays] = MappingProxyType(
    {
        "lan": LAN,
        "wan": replace(LAN, network_least=10_000, network_most=40_000),
        "bursts": replace(LAN, burst_every=6_000_000),
    }
)
"""Delays by name: a local network, a wide one, and a local one with bursts."""


def delays_of(delays: Delays | str) -> Delays:
    """The delays, or those with this name."""
    if isinstance(delays, Delays):
        return delays
    if delays not in PRESETS:
        raise OptionError(
            f"expected delays to be one of {', '.join(PRESETS)} or a Delays, got {delays!r}"
        )
    return PRESETS[delays]
