"""A detector whose workers keep short logs, so that a short stream has many bases and volumes."""

from __future__ import annotations

import sys

import betimes.host.log
import betimes.model.volumes
from betimes import Hierarchy
from tests.spark.material import NotBetween

if "pytest" not in sys.modules:  # in a worker
    betimes.host.log.LEAST_LOG = 20_000
    betimes.host.log.LOG_PER_BASE = 0
    betimes.model.volumes.LEAST = 4_000


class Touches(NotBetween):
    """Makes workers import this module."""


def touches() -> Hierarchy:
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(Touches, on=("near", "not_near", "hit"), emits="touch", by="key")
    return hierarchy
