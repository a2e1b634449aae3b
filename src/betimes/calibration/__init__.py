"""Calibration: what detectors should start with, measured by observers of an engine.

The result is a `betimes.configuration.value.Calibration`.
"""

from betimes.calibration.iterative import calibrate
from betimes.calibration.walk import recalibrate

__all__ = ["calibrate", "recalibrate"]
