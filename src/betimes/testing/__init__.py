"""For tests, the users' as well as ours: the reference unit, streams in disorder, strategies."""

from betimes.testing.oracle import oracle
from betimes.testing.reference import ReferenceUnit
from betimes.testing.streams import delayed, sensor_stream

__all__ = ["ReferenceUnit", "delayed", "oracle", "sensor_stream"]
