"""Ordering: clock, delays, slack, and the unit that uses them to put a stream in order."""

from betimes.ordering.kernel import NEVER, holding_time, holding_times
from betimes.ordering.ordered import Handed, Ordered
from betimes.ordering.slack import SlackPolicy
from betimes.ordering.sources import known_slack
from betimes.ordering.stats import OrderingStats
from betimes.ordering.unit import OrderingUnit

__all__ = [
    "NEVER",
    "Handed",
    "Ordered",
    "OrderingStats",
    "OrderingUnit",
    "SlackPolicy",
    "holding_time",
    "holding_times",
    "known_slack",
]
