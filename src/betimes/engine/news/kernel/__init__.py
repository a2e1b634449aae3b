"""Compiled parts of the wiring: news among the arrivals of a stage."""

from betimes.engine.news.kernel.merging import merge

__all__ = ["merge"]
