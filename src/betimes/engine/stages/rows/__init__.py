"""Rows: Python detectors get events one by one; only disturbed keys go back."""

from betimes.engine.stages.rows.tactic import RowIntake, RowTactic

__all__ = ["RowIntake", "RowTactic"]
