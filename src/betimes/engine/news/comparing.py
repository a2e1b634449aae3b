"""Which outputs a replay made again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import CAUSE, Outputs

Ints = npt.NDArray[np.int64]


def made_again(old: Outputs, new: Outputs) -> tuple[Ints, Ints]:
    """The new outputs that are known, at the same places, and which of the old ones they are."""
    if not (len(old) and len(new)):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    found = _by_digest(old, new)
    if found is not None:
        return found
    known = {match: row for row, match in enumerate(old.ids)}
    again = [(row, known[match]) for row, match in enumerate(new.ids) if match in known]
    places, before = (new.places, old.places) if again else ([], [])
    same = [(row, was) for row, was in again if places[row] == before[was]]
    rows = np.array(same, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _by_digest(old: Outputs, new: Outputs) -> tuple[Ints, Ints] | None:
    """The same without spelling any; None if numbers do not say everything, or few are spelled."""
    if old.made_one_by_one and new.made_one_by_one:
        return None
    if old.ties is None or new.ties is None:
        return None
    if old.copied or new.copied:
        return None
    first = old.digests[0]
    order = first.argsort()
    ordered = first[order]
    if (ordered[1:] == ordered[:-1]).any():
        return None
    was = order.take(ordered.searchsorted(new.digests[0]), mode="clip")
    same = (old.digests.take(was, axis=1) == new.digests).all(axis=0)
    same &= (old.ties.take(was, axis=1) == new.ties).all(axis=0)
    same &= old.numbers[CAUSE].take(was) == new.numbers[CAUSE]
    rows = np.flatnonzero(same)
    return rows, was[rows]
