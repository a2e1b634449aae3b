"""How long an event is held back: attenuation x slack, in whole microseconds, rounded up.

The product that counts is the one of the numbers that people write: 0.07 x 100 is 7, although the
nearest float to 0.07 is a little larger and the product rounded up would be 8. The float and the
product each are off by at most half a unit in the last place, so taking off twice their sum, and
rounding up then, gives the exact result as long as the product is below 2**51 (71 years).

Everything that has to know when an event is released asks here: the loop, the stages that pass
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
