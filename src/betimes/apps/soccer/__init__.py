"""A football match seen by a real-time locating system, from raw positions to "blocked shot".

- `stadium`: pitch, people and sensors: `NUREMBERG` (the public recording), `SIMULATED`
- `recording`: positions as tables, and the stadium's file format
- `simulator`: a match generated from a seed, with the ground truth
- `disorder`: positions in order of arrival
- `hierarchy`, `detectors`, `queries`, `scoring`: what is detected, and how well

>>> match = simulate(1.0, seed=1)
>>> arrivals = next(disordered(match.tables(), "lan", seed=1))
>>> arrivals["ts"].to_pylist()[:3], arrivals["arrived"].to_pylist()[:3]
([200, 0, 100], [796, 941, 2104])
"""

from betimes.apps.soccer.disorder import PRESETS, Delays, disordered
from betimes.apps.soccer.recording import Skipped, read_recording, write_recording
from betimes.apps.soccer.simulator import Match, simulate
from betimes.apps.soccer.stadium import NUREMBERG, SIMULATED, Stadium

__all__ = [
    "NUREMBERG",
    "PRESETS",
    "SIMULATED",
    "Delays",
    "Match",
    "Skipped",
    "Stadium",
    "disordered",
    "read_recording",
    "simulate",
    "write_recording",
]
