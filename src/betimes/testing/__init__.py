"""For your tests and ours: the oracle, checks, out-of-order streams, strategies, virtual time."""

from betimes.testing.check import DetectorCheckError, check_detector
from betimes.testing.cluster import VirtualCluster
from betimes.testing.oracle import oracle
from betimes.testing.reference import ReferenceUnit
from betimes.testing.scaled import scaled_hierarchy, scaled_stream
from betimes.testing.sources import source_stream
from betimes.testing.streams import delayed, sensor_stream
from betimes.testing.virtual import VirtualTime

__all__ = [
    "DetectorCheckError",
    "ReferenceUnit",
    "VirtualCluster",
    "VirtualTime",
    "check_detector",
    "delayed",
    "oracle",
    "scaled_hierarchy",
    "scaled_stream",
    "sensor_stream",
    "source_stream",
]
