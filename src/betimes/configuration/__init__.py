"""Configurations: what the detectors of a hierarchy start with, as a value and as a file."""

from betimes.configuration.value import Calibration, CalibrationError

__all__ = ["Calibration", "CalibrationError"]
