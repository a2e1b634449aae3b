"""Windows: an operator over overlapping windows of the ordered stream, as a detector."""

from betimes.windows.aggregates import aggregate
from betimes.windows.plan import Windowed
from betimes.windows.shapes import window
from betimes.windows.windowed import windowed

__all__ = ["Windowed", "aggregate", "window", "windowed"]
