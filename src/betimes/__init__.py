"""betimes: complex events in streams that arrive out of order, early and right.

>>> import betimes as bt
>>> unit = bt.OrderingUnit(clock="A")
>>> arrivals = [bt.Event("A", 0), bt.Event("A", 2), bt.Event("A", 5), bt.Event("B", 3)]
>>> [event.ts for event in unit.feed(arrivals).released.events]
[0, 2, 5]
"""

from betimes.model import (
    BetimesError,
    Event,
    EventBatch,
    EventError,
    OptionError,
    Rejected,
    StreamEndedError,
)
from betimes.ordering import Ordered, OrderingStats, OrderingUnit, SlackPolicy

__version__ = "0.1.0"

__all__ = [
    "BetimesError",
    "Event",
    "EventBatch",
    "EventError",
    "OptionError",
    "Ordered",
    "OrderingStats",
    "OrderingUnit",
    "Rejected",
    "SlackPolicy",
    "StreamEndedError",
]
