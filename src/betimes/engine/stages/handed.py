"""What an ordering unit hands out, in the order in which it is handled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.ordering.kernel import AT, ROW, TS
from betimes.ordering.step import Step

Ints = npt.NDArray[np.int64]


def first_handed(step: Step, at: Ints, row: int) -> tuple[Ints, Ints, Ints]:
    """What the unit hands out for the first time, in order: rows, times and arrivals."""
    released, replayed = step.released, step.replayed
    if replayed.shape[1] or len(step.late):
        released = np.concatenate((replayed[:, replayed[AT] >= 0], released), axis=1)
    rows, ts, places = released[ROW], released[TS], released[AT]
    if not step.in_order and len(rows) > 1 and not _is_in_order(ts, rows):
        order = in_order(ts, rows)
        rows, ts, places = rows.take(order), ts.take(order), places.take(order)
    return rows, ts, at.take(places - row, mode="clip") if len(at) else at


def _is_in_order(ts: Ints, ties: Ints) -> bool:
    """Whether this is so already; late events disturb it, and a clock that turned out wrong."""
    forward = ts[1:] > ts[:-1]
    if not forward.all():
        forward |= (ts[1:] == ts[:-1]) & (ties[1:] > ties[:-1])
    return bool(forward.all())


def in_order(ts: Ints, ties: Ints) -> Ints:
    """The indices that sort by time, then by a number; nearly sorted times are sorted fast."""
    order = ts.argsort(kind="stable")
    ts_then, ties_then = ts.take(order), ties.take(order)
    wrong = (ts_then[1:] == ts_then[:-1]) & (ties_then[1:] < ties_then[:-1])
    return np.lexsort((ties, ts)) if wrong.any() else order
