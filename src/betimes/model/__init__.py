"""The vocabulary of everything else: events, batches of events, durations, errors."""

from betimes.model.batch import EventBatch
from betimes.model.derived import Derived
from betimes.model.duration import Duration, microseconds, readable
from betimes.model.errors import BetimesError, EventError, OptionError, StreamEndedError
from betimes.model.event import PSEUDO, TICK, Event
from betimes.model.times import Rejected

__all__ = [
    "PSEUDO",
    "TICK",
    "BetimesError",
    "Derived",
    "Duration",
    "Event",
    "EventBatch",
    "EventError",
    "OptionError",
    "Rejected",
    "StreamEndedError",
    "microseconds",
    "readable",
]
