"""What an ordering unit hands out, in the order in which it is handled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.ordering import Ordered

Ints = npt.NDArray[np.int64]


def first_handed(answer: Ordered, at: Ints, row: int) -> tuple[Ints, Ints, Ints]:
    """What the unit hands out for the first time, in order: rows, times and arrivals."""
    released, replayed = answer.released, answer.replayed
    rows, ts, places = released.rows, released.ts, released.at
    if len(replayed) or len(answer.late):
        new = (replayed.at >= 0).nonzero()[0]
        rows = np.concatenate((replayed.rows[new], rows))
        ts = np.concatenate((replayed.ts[new], ts))
        places = np.concatenate((replayed.at[new], places))
        order = _in_order(ts, rows)
        rows, ts, places = rows[order], ts[order], places[order]
    return rows, ts, at.take(places - row, mode="clip") if len(at) else at


def _in_order(ts: Ints, rows: Ints) -> Ints:
    """The indices that sort by time, then by row; nearly sorted times are sorted fast."""
    order = np.argsort(ts, kind="stable")
    ts_then, rows_then = ts[order], rows[order]
    wrong = (ts_then[1:] == ts_then[:-1]) & (rows_then[1:] < rows_then[:-1])
    return np.lexsort((rows, ts)) if wrong.any() else order
