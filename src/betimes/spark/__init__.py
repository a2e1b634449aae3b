"""The pipeline on Spark Structured Streaming: early and right detections out of a late stream."""

from betimes.spark.detection import detect
from betimes.spark.folding import late, rejected, table
from betimes.spark.guard import BusyError
from betimes.spark.running import Run, RunError, write
from betimes.spark.settings import session
from betimes.spark.shipping import ShippingError

__all__ = [
    "BusyError",
    "Run",
    "RunError",
    "ShippingError",
    "detect",
    "late",
    "rejected",
    "session",
    "table",
    "write",
]
