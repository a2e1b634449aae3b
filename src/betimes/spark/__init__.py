"""The pipeline on Spark Structured Streaming: early and right detections out of a late stream."""

from betimes.model.errors import BusyError
from betimes.spark.calibrating import calibrate
from betimes.spark.detection import detect
from betimes.spark.folding import late, rejected, table
from betimes.spark.running import Run, RunError, write
from betimes.spark.settings import session
from betimes.spark.shipping import ShippingError
from betimes.spark.statistics import Statistics, statistics

__all__ = [
    "BusyError",
    "Run",
    "RunError",
    "ShippingError",
    "Statistics",
    "calibrate",
    "detect",
    "late",
    "rejected",
    "session",
    "statistics",
    "table",
    "write",
]
