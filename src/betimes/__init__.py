"""betimes: complex events in streams that arrive out of order, early and right.

>>> import betimes as bt
>>> unit = bt.OrderingUnit(clock="A")
>>> arrivals = [bt.Event("A", 0), bt.Event("A", 2), bt.Event("A", 5), bt.Event("B", 3)]
>>> [event.ts for event in unit.feed(arrivals).released.events]
[0, 2, 5]
"""

from importlib import import_module
from typing import Any

from betimes.calibration import calibrate, recalibrate
from betimes.engine import (
    Calibration,
    CalibrationError,
    CheckpointError,
    Engine,
    EngineOptions,
    Hierarchy,
    HierarchyError,
    Zone,
    detect,
)
from betimes.model import (
    BetimesError,
    Derived,
    Event,
    EventBatch,
    EventError,
    OptionError,
    Rejected,
    StreamEndedError,
)
from betimes.model.change import Change, ChangeBatch, fold
from betimes.model.detector import DetectorError
from betimes.model.errors import BusyError, MissingExtraError
from betimes.ordering import Ordered, OrderingStats, OrderingUnit, SlackPolicy
from betimes.patterns import Pattern, PatternError, PatternWarning, begin, pattern
from betimes.placement import PlacementError
from betimes.transactions import StateError, horizon, transactional
from betimes.windows import aggregate, window, windowed

__version__ = "0.1.0"

__all__ = [
    "BetimesError",
    "BusyError",
    "Calibration",
    "CalibrationError",
    "Change",
    "ChangeBatch",
    "CheckpointError",
    "Derived",
    "DetectorError",
    "Engine",
    "EngineOptions",
    "Event",
    "EventBatch",
    "EventError",
    "Hierarchy",
    "HierarchyError",
    "OptionError",
    "Ordered",
    "OrderingStats",
    "OrderingUnit",
    "Pattern",
    "PatternError",
    "PatternWarning",
    "PlacementError",
    "Rejected",
    "SlackPolicy",
    "StateError",
    "StreamEndedError",
    "Zone",
    "aggregate",
    "begin",
    "calibrate",
    "detect",
    "fold",
    "horizon",
    "pattern",
    "recalibrate",
    "transactional",
    "window",
    "windowed",
]


_LATER = ("spark", "testing")
"""Also the names of the extras that bring what they import."""


def __getattr__(name: str) -> Any:
    """`bt.testing` and `bt.spark` without importing them for those who do not use them."""
    if name not in _LATER:
        raise AttributeError(f"module 'betimes' has no attribute {name!r}")
    try:
        return import_module(f"betimes.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("betimes"):
            raise
        raise MissingExtraError(name, error.name) from None


def __dir__() -> list[str]:
    return [*__all__, *_LATER]
