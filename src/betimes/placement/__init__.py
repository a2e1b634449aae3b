"""Placement: which detectors of a hierarchy live where, when it is spread over several nodes."""

from betimes.placement.planner import Caution, Move, Plan, Planner
from betimes.placement.problem import PlacementError, Problem
from betimes.placement.search import fitting, greedy, optimise
from betimes.placement.workers import Workers

__all__ = [
    "Caution",
    "Move",
    "PlacementError",
    "Plan",
    "Planner",
    "Problem",
    "Workers",
    "fitting",
    "greedy",
    "optimise",
]
