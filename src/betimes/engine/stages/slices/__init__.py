"""Detectors per batch in the engine: stages that hand columns to Python detectors."""

from betimes.engine.stages.slices.stage import BatchStage

__all__ = ["BatchStage"]
