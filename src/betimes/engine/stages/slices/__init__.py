"""Slices: per-batch detectors get ordered slices of columns; each key has its own history."""

from betimes.engine.stages.slices.tactic import SliceTactic

__all__ = ["SliceTactic"]
