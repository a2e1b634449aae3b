"""Rows: Python detectors are handed events one by one; only the keys that are disturbed go back."""

from betimes.engine.stages.rows.tactic import RowTactic

__all__ = ["RowTactic"]
