"""Slices: detectors per batch are handed ordered slices of columns; each key has its history."""

from betimes.engine.stages.slices.tactic import SliceTactic

__all__ = ["SliceTactic"]
