"""Detectors whose workers keep short logs, so that a short stream has many bases and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext

import betimes.host.log
import betimes.model.volumes
from betimes import Event, Hierarchy, transactional
from tests.spark.material import NotBetween
from tests.transactions import consistency

if TaskContext.get() is not None:  # in a worker
    betimes.host.log.LEAST_LOG = 1_000
    betimes.host.log.LOG_PER_BASE = 0
    betimes.model.volumes.LEAST = 4_000


class Touches(NotBetween):
    """Makes workers import this module."""


def touches() -> Hierarchy:
    hierarchy = Hierarchy(clock="ball")
    hierarchy.add(Touches, on=("near", "not_near", "hit"), emits="touch", by="key")
    return hierarchy


def transfer(event: Event, state: Any) -> Iterator[Event]:
    """Makes workers import this module."""
    return consistency.transfer(event, state)


def short_ledger() -> Hierarchy:
    hierarchy = Hierarchy(clock="transfer")
    hierarchy.add(transactional(transfer), on="transfer", emits="balance", name="ledger")
    return hierarchy
