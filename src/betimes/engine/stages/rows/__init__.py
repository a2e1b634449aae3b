"""Rows: Python detectors get events one by one; only disturbed keys go back."""

from betimes.engine.stages.rows.arriving import RowArrivals
from betimes.engine.stages.rows.tactic import RowTactic

__all__ = ["RowArrivals", "RowTactic"]
