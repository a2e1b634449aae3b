"""Aggregates of windows, compiled.

All keys share windows of time, because these are aligned to the epoch. So events are kept in one
order, whatever their keys, and a window is a range of them. One pass over the range adds each event
to what is known of its key; a key that has an event there has a *slot*, a row of the result.

Count windows and sessions belong to one key. `runs.py` finds them, and lists events by key; in that
list, too, a window is a range.

Numbers are floats, and null is NaN, as in the expression language. Python tells 3 from 3.0, so does
the result: each number has a flag that says whether it is an integer. Integers are exact up to
`EXACT`. A sum of integers that grows larger makes the pass give up: Python calculates it then.

Floats are added one by one, in order, as Python does it: parts that are added up first would round
differently, and what a window gives must not depend on how it was calculated.
"""

from betimes.windows.kernel.runs import cut_counts, cut_gaps, gather, needed
from betimes.windows.kernel.summing import EXACT, FLOAT, FUNCTIONS, INTEGER, NULL, summarise

__all__ = [
    "EXACT", "FLOAT", "FUNCTIONS", "INTEGER", "NULL", "cut_counts", "cut_gaps", "gather", "needed",
    "summarise",
]  # fmt: skip
