"""The engine: runs a hierarchy of detectors; it speculates, replays and takes back."""

from betimes.configuration.value import Calibration, CalibrationError
from betimes.engine.attenuation import Zone
from betimes.engine.detection import detect
from betimes.engine.engine import Engine
from betimes.engine.hierarchy import Hierarchy, HierarchyError
from betimes.engine.load import LoadMeter
from betimes.engine.options import EngineOptions
from betimes.engine.snapshots.spacing import SnapshotModel
from betimes.engine.stats import DetectorStats
from betimes.model.codec import CheckpointError

__all__ = [
    "Calibration",
    "CalibrationError",
    "CheckpointError",
    "DetectorStats",
    "Engine",
    "EngineOptions",
    "Hierarchy",
    "HierarchyError",
    "LoadMeter",
    "SnapshotModel",
    "Zone",
    "detect",
]
