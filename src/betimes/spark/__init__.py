"""The pipeline on Spark Structured Streaming: early and right results from a late stream."""

from betimes.model.errors import BusyError
from betimes.parallel import ShippingError
from betimes.spark.query.calibrating import calibrate
from betimes.spark.query.current import current
from betimes.spark.query.detection import detect
from betimes.spark.query.failures import RunError
from betimes.spark.query.folding import late, rejected, table
from betimes.spark.query.run import Run
from betimes.spark.query.settings import session
from betimes.spark.query.writing import write
from betimes.spark.telemetry.statistics import Statistics, statistics

__all__ = [
    "BusyError",
    "Run",
    "RunError",
    "ShippingError",
    "Statistics",
    "calibrate",
    "current",
    "detect",
    "late",
    "rejected",
    "session",
    "statistics",
    "table",
    "write",
]
