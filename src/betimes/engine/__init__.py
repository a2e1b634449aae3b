"""The engine: runs a hierarchy of detectors; it speculates, replays and takes back."""

from betimes.engine.attenuation import Zone
from betimes.engine.calibration.configuration import Calibration, CalibrationError
from betimes.engine.calibration.iterative import calibrate
from betimes.engine.calibration.walk import recalibrate
from betimes.engine.codec import CheckpointError
from betimes.engine.detection import detect
from betimes.engine.engine import Engine
from betimes.engine.hierarchy import Hierarchy, HierarchyError
from betimes.engine.options import EngineOptions
from betimes.engine.snapshots.spacing import SnapshotModel
from betimes.engine.stats import DetectorStats

__all__ = [
    "Calibration",
    "CalibrationError",
    "CheckpointError",
    "DetectorStats",
    "Engine",
    "EngineOptions",
    "Hierarchy",
    "HierarchyError",
    "SnapshotModel",
    "Zone",
    "calibrate",
    "detect",
    "recalibrate",
]
