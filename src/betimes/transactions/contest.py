"""Two ways to do the same work: whichever is faster goes on, and the other is tried now and then.

Both are measured in seconds per transaction. As long as the other one loses, it is tried more and
more rarely.
"""

from __future__ import annotations

SURE = 128
"""Transactions after which only the newest measurement counts."""
_JUMP = 2.0
"""So many times what is known is the most that one measurement counts: something else, such as
garbage collection, may have got in its way."""
_PAUSES = 4096, 1 << 20
"""Transactions between two trials of what was slower: at first, and at most."""


class Contest:
    """Compares the plain way (False) with another one (True)."""

    def __init__(self) -> None:
        self.costs: dict[bool, float] = {}
        """Seconds per transaction."""
        self._since_trial, self._pause = 0, _PAUSES[0]

    def note(self, way: bool, seconds: float, count: int, *, counts: bool = True) -> None:
        """This many transactions took this long; if that says nothing, it does not count."""
        self._since_trial += count
        if not counts:
            return
        was, cost, known = self.faster(), seconds / count, self.costs.get(way, seconds / count)
        weight = min(count / SURE, 1.0)
        most = _JUMP * known or cost  # a coarse clock may have seen nothing
        self.costs[way] = known + weight * (min(cost, most) - known)
        if self.faster() is not was:
            self._since_trial, self._pause = 0, _PAUSES[0]

    def faster(self) -> bool | None:
        """Whether the other way is faster, if that is known."""
        plain, other = self.costs.get(False), self.costs.get(True)
        return None if plain is None or other is None else other < plain

    def chooses(self) -> bool:
        """Which way to go, once both are known: the faster one, unless it is time for a trial."""
        return bool(self.faster()) is not self._tries_the_slower()

    def _tries_the_slower(self) -> bool:
        if self._since_trial < self._pause:
            return False
        self._since_trial, self._pause = 0, min(2 * self._pause, _PAUSES[1])
        return True
