"""What the driver keeps to build a node again that has died.

The states of all stages before some round, the *base*, and everything that was said since: rounds,
and what stages told. From these, a new node says again what the dead one has said, and goes on;
what others know already, they drop. When the log has become larger than `LEAST`, and twice as large
as the base, the next round asks for states, and once all of them are there, they are the new base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from betimes.placement.rounds import Begin, Homes, Message, Round, State, Told, encoded

LEAST = 256 * 1024 * 1024
"""Bytes; a smaller log is not worth a new base."""


class Log:
    """The base and what was said since; `fresh` gives the states of stages that have just begun."""

    def __init__(self, fresh: Callable[[], dict[str, bytes]], *, least: int = LEAST) -> None:
        self._fresh = fresh
        self._least = least
        self._base: dict[str, bytes] | None = None
        self._first = 0
        self._rounds: dict[int, tuple[Round, Homes]] = {}
        self._told: dict[tuple[int, str], Told] = {}
        self._size = 0
        self._wanted: int | None = None
        """The round before which states were asked for."""
        self._coming: dict[str, bytes] = {}
        self._lost: dict[str, int] = {}
        """Nodes that were built again: up to this round, others may have spoken to the dead one."""

    def begin(self, base: Mapping[str, bytes]) -> None:
        """Stages resume instead of beginning."""
        self._base = dict(base)

    def wants_states(self, number: int) -> bool:
        """Whether this round shall ask for states."""
        base = sum(map(len, self._base.values())) if self._base else 0
        if self._wanted is not None or self._size < max(self._least, 2 * base):
            return False
        self._wanted = number
        return True

    def note_round(self, whole: Round, homes: Homes) -> None:
        self._rounds[whole.number] = whole, homes

    def note_told(self, told: Told) -> Iterator[str]:
        """Somebody has spoken; the nodes that may have missed it."""
        which = told.number, told.stage
        if told.number >= self._first and which not in self._told:
            self._told[which] = told
            for node, newest in self._lost.items():
                if told.number <= newest:
                    yield node

    def note_size(self, size: int) -> None:
        """So many bytes were said."""
        self._size += size

    def note_state(self, state: State) -> None:
        """A state has come; with the last one, there is a new base."""
        if state.number != self._wanted:
            return
        self._coming[state.stage] = state.data
        if len(self._coming) < len(self._rounds[state.number][1]):
            return
        self._base, self._first, self._coming, self._wanted = self._coming, state.number, {}, None
        self._rounds = {n: each for n, each in self._rounds.items() if n >= self._first}
        self._told = {key: each for key, each in self._told.items() if key[0] >= self._first}
        self._size = 0

    def again(self, node: str) -> bytes:
        """What a new node has to hear in the place of one that has died."""
        self._lost[node] = max(self._rounds, default=-1)
        return encoded([*self._again(node), *self._told.values()])

    def _again(self, node: str) -> Iterator[Message]:
        base = self._fresh() if self._base is None else self._base
        here = {
            name: number
            for number, (_, homes) in sorted(self._rounds.items())
            for name, nodes in homes.items()
            if node in nodes
        }
        for name in sorted(here):
            yield State(name, self._first, base[name])
        for number, (whole, homes) in sorted(self._rounds.items()):
            everyone = dict(homes) if number == self._first else whole.homes
            yield whole._replace(homes=everyone, fresh=False)
        # Last: until then, the node only collects, and these replace rounds that it got before.
        yield Begin(node, self._first, here)
