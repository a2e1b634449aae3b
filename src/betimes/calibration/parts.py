"""Splitting delays: the parts of the delay of a detector's outputs.

The delay of a type at its readers was measured. Ordering (the slack of the detector that makes it)
and back-setting are known as well, and within one engine there is no network. What remains is
processing: the clock moves in steps, so a cause is released up to one step after its slack is over,
and the output is measured when the clock moves next.
"""

from __future__ import annotations

from betimes.calibration.probes import Measured
from betimes.configuration.value import Calibration, SubDelays
from betimes.engine.hierarchy import Hierarchy
from betimes.model import PSEUDO


def sub_delays(
    hierarchy: Hierarchy, measured: Measured, found: Calibration
) -> dict[str, dict[str, SubDelays]]:
    """The sub-delays of everything that detectors publish, by detector and type."""
    rests = {
        (node.name, type): _processing(hierarchy, measured, found, node.name, type)
        for node in hierarchy
        for type in node.emits
        if _readers(hierarchy, type)
    }
    # A type that nobody reads has shown no delay. Assume it is like the others; if there are none,
    # assume one clock step until it is released, and another until it would be measured.
    usual = max(rests.values(), default=2 * max(measured.steps.values(), default=0))
    return {
        node.name: {
            type: SubDelays(
                processing=rests.get((node.name, type), usual),
                back_setting=measured.back_setting.get(node.name, {}).get(type, 0),
            )
            for type in node.emits
        }
        for node in hierarchy
    }


def _readers(hierarchy: Hierarchy, type: str) -> list[str]:
    return [node.name for node in hierarchy if type in node.on]


def _processing(
    hierarchy: Hierarchy, measured: Measured, found: Calibration, name: str, type: str
) -> int:
    """What remains of the delay that the readers of a type have seen."""
    readers = _readers(hierarchy, type)
    seen = max(measured.delays.get(reader, {}).get(type, 0) for reader in readers)
    back = measured.back_setting.get(name, {}).get(type, 0)
    notices = [_step_of_notice(hierarchy, measured, found, reader) for reader in readers]
    return max(seen - found.detectors[name].slack - back, *notices, 0)


def _step_of_notice(
    hierarchy: Hierarchy, measured: Measured, found: Calibration, reader: str
) -> int:
    """How much later the notice of a slack reached a reader than that slack says."""
    (on,) = (node.on for node in hierarchy if node.name == reader)
    below = [found.detectors[n.name].slack for n in hierarchy if set(n.emits).intersection(on)]
    notice = measured.delays.get(reader, {}).get(PSEUDO, 0)
    return notice - max(below) if notice else 0
