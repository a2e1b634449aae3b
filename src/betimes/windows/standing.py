"""What compiled aggregates have published: outputs in pieces, in the order in which they were made.

A piece never changes: what is taken out leaves a new one behind. So a checkpoint writes each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from betimes.engine.news.outputs import CAUSE, Outputs
from betimes.engine.stages.tactic import END
from betimes.model.volumes import Kept, Ref, VolumeReader, VolumeWriter

LENGTH = 256
"""Smaller pieces that follow each other are written together."""

Mask = npt.NDArray[np.bool_]


class Piece:
    """Outputs that were made one after the other."""

    __slots__ = ("kept", "latest", "outputs")

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs
        self.latest = -1
        """No cause of these, or of those before them, is later."""
        self.kept: Kept | None = None


class Standing:
    """The outputs that were not taken back."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._earliest = END
        """No cause is earlier."""

    def keep(self, made: Outputs) -> None:
        """Some more."""
        if len(made):
            self._add(Piece(made))

    def _add(self, piece: Piece) -> None:
        causes = piece.outputs.numbers[CAUSE]
        before = self._pieces[-1].latest if self._pieces else -1
        piece.latest = max(before, int(causes.max()))
        self._earliest = min(self._earliest, int(causes.min()))
        self._pieces.append(piece)

    def take_out(self, since: int, which: Callable[[Outputs], Mask]) -> Outputs:
        """Those that were caused at a time or later and that `which` says."""
        index = len(self._pieces)
        while index and self._pieces[index - 1].latest >= since:
            index -= 1
        found, pieces = [], self._pieces[index:]
        del self._pieces[index:]
        for piece in pieces:
            mine = which(piece.outputs)
            if not mine.any():
                self._add(piece)
                continue
            found.append(piece.outputs.pick(np.flatnonzero(mine)))
            if not mine.all():
                self.keep(piece.outputs.pick(np.flatnonzero(~mine)))
        return Outputs.concat(found)

    def forget(self, before: int) -> Iterator[Outputs]:
        """Drop what was caused before a time, and return it."""
        if before > self._earliest:
            self._earliest = END
            if gone := self.take_out(-1, lambda outputs: outputs.numbers[CAUSE] < before):
                yield gone

    def all(self) -> Outputs:
        """All of them."""
        return Outputs.concat([piece.outputs for piece in self._pieces])

    # Checkpoints

    def state_of(self, volumes: VolumeWriter, settled: int, what: str) -> list[Ref]:
        """Everything needed to resume elsewhere."""
        self._tidy()
        return [
            volumes.put(piece, piece.outputs.state_of, what, done=piece.latest <= settled)
            for piece in self._pieces
        ]

    def resume(self, refs: list[Ref], volumes: VolumeReader, what: str) -> None:
        """Resume from what `state_of` kept."""
        for ref in refs:
            state, kept = volumes.get(ref, what)
            piece = Piece(Outputs.resumed(state))
            piece.kept = kept
            self._add(piece)

    def _tidy(self) -> None:
        """Join small pieces that follow each other."""
        groups: list[list[Piece]] = []
        size = LENGTH
        for piece in self._pieces:
            if size >= LENGTH or len(piece.outputs) >= LENGTH:
                groups.append([])
                size = 0
            groups[-1].append(piece)
            size += len(piece.outputs)
        self._pieces = []
        for group in groups:
            self._add(group[0] if len(group) == 1 else _joined(group))


def _joined(group: list[Piece]) -> Piece:
    return Piece(Outputs.concat([piece.outputs for piece in group]))
