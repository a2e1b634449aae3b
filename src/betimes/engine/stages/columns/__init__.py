"""Columns: compiled patterns over input events, which stay columns until a match is found."""

from betimes.engine.stages.columns.tactic import ColumnTactic

__all__ = ["ColumnTactic"]
