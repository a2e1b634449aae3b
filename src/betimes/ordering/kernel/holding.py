"""How long an event is held back: attenuation x slack, in whole microseconds, rounded up.

What counts is the product of the numbers as people write them: 0.07 x 100 is 7, although the float
nearest to 0.07 is slightly larger, so that its product, rounded up, would be 8. The float and the
product each add a relative error of at most 2**-53. Reducing the product by 2**-51 before rounding
up removes both, and changes nothing else as long as the product is below 2**51 (71 years) and the
attenuation has no more digits than a float can tell apart.

Everything that needs to know when an event is released asks here: the loop, the stages that pass
time to detectors with deadlines, and the reference in `betimes.testing`.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.model.compiling import compiled
from betimes.ordering.kernel.layout import Ints

_EXACT = 1.0 - 2.0**-51


@compiled
def holding_time(attenuation: float, slack: int) -> int:
    """How long an event is held back before it is released.

    >>> holding_time(0.07, 100), holding_time(0.3, 15), holding_time(1.0, 15)
    (7, 5, 15)
    """
    if attenuation >= 1.0:
        return slack
    return math.ceil(attenuation * slack * _EXACT)


@compiled
def holding_times(attenuation: float, slack: Ints) -> Ints:
    """`holding_time` for each value of an array.

    >>> holding_times(0.07, np.array([0, 100, 150]))
    array([ 0,  7, 11])
    """
    held = np.empty(len(slack), np.int64)
    for i in range(len(slack)):
        held[i] = holding_time(attenuation, slack[i])
    return held
