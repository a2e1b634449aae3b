"""Compiled patterns in the engine: stages that handle columns instead of events."""

from betimes.engine.stages.columns.stage import ColumnStage

__all__ = ["ColumnStage"]
