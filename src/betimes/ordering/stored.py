"""Whether the stored state of an ordering unit is one that its compiled loop can work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.model.stored import array, indices, require
from betimes.ordering.kernel import layout as kernel

if TYPE_CHECKING:
    from betimes.ordering.loop import Loop
    from betimes.ordering.sources import Clocks


def check_unit(kept: dict[str, Any], loop: Loop) -> None:
    """Refuse a state in which the loop would read or write what is not its own.

    `loop` is a new one with the same options.
    """
    types = kept["types"]
    require(all(isinstance(name, str) for name in types), "types are not text")
    require(len(set(types)) == len(types), "types are there twice")
    array(kept["table"], np.int64, (kernel.N_TYPE, len(types)), "the table of types")
    _check_loop(kept["loop"], loop, len(types))
    for block in kept["helpers"]:
        if block is not None and "parts" in block:
            _check_block(block, len(types))


def _check_loop(kept: dict[str, Any], loop: Loop, types: int) -> None:
    state = array(kept["state"], np.int64, loop.state.shape, "the state of the loop")
    floats = array(kept["floats"], np.float64, loop.floats.shape, "the state of the loop")
    same = (state[: kernel.NOW] == loop.state[: kernel.NOW]).all()
    fixed = [kernel.MARGIN, kernel.DECAY, kernel.MAX_LATE]
    require(same and (floats[fixed] == loop.floats[fixed]).all(), "its options are different ones")
    require(0 <= floats[kernel.ATTENUATION] <= 1, "the attenuation is not one")
    array(kept["waiting"], np.int64, (state[kernel.WAITING],), "what waits for the clock")
    few = 0 <= state[kernel.SUSPECTS] < kernel.CONFIRM
    require(few or loop.clocks is not None, "there are too many suspects")
    held = array(kept["held"], np.int64, (kernel.CODE + 1, None), "the buffer")
    require(0 <= state[kernel.RELEASED] <= held.shape[1], "more is released than there is")
    look = state[kernel.LOOK]
    require(
        look > state[kernel.ARRIVALS] or look == state[kernel.RELEASED] == 0, "it looks too late"
    )
    require((np.diff(held[kernel.TS]) >= 0).all(), "the buffer is not sorted")
    indices(held[kernel.CODE], types, "the types of the buffer")
    indices(held[kernel.ROW], int(state[kernel.ARRIVALS]), "the rows of the buffer")
    _check_window(array(kept["window"], np.int64, loop.window.shape, "the window"), state)
    if loop.clocks is not None:
        _check_clocks(kept["clocks"], loop.clocks)


def _check_clocks(kept: dict[str, Any], new: Clocks) -> None:
    """One row per source, each like the state of a loop."""
    rows = array(kept["rows"], np.int64, (None, new.rows.shape[1]), "the clocks of sources")
    count = len(rows)
    require(count >= len(new.rows), "there are too few sources")
    array(kept["floats"], np.float64, (count, new.floats.shape[1]), "the clocks of sources")
    windows = array(kept["windows"], np.int64, (count, *new.windows.shape[1:]), "the windows")
    waiting = array(kept["waiting"], np.int64, (None, count), "what waits for the clocks")
    array(kept["pending"], np.int64, (count, None), "what waits for the clocks")
    array(kept["marks"], np.int64, (count, new.marks.shape[1]), "the table of sources")
    common = array(kept["common"], np.int64, new.common.shape, "what sources have in common")
    require(bool(common[0] == new.common[0]), "its options are different ones")
    indices(rows[:, kernel.WAITING], len(waiting) + 1, "what waits for the clocks")
    indices(rows[:, kernel.SUSPECTS], kernel.CONFIRM, "the suspects of sources")
    for state, window in zip(rows, windows, strict=True):
        _check_window(window, state)


def _check_window(window: Any, state: Any) -> None:
    """Weights, and what is known about their sums; see `kernel.learning`."""
    cut, heaviest = int(state[kernel.CUT]), 1 << (kernel.GAIN_BITS + 7)
    require(0 < state[kernel.GAIN] < heaviest, "the weight of a need is out of range")
    require((window >= 0).all() and 0 <= cut < len(window), "the window is out of range")
    weights = [int(window.sum()), int(window[cut + 1 :].sum())]
    require(weights == state[[kernel.TOTAL, kernel.ABOVE]].tolist(), "the window does not add up")


def _check_block(block: dict[str, Any], types: int) -> None:
    seen = 0
    for ts, codes, heads, *origin in block["parts"]:
        array(ts, np.int64, (None,), "a block of arrivals")
        array(heads, np.int64, ts.shape, "a block of arrivals")
        for column in origin:
            require(isinstance(column, np.ndarray) and column.dtype == np.int64, "no numbers")
            require(len(column) in (0, len(ts)), "a block of arrivals is incomplete")
        require(isinstance(codes, np.ndarray) and codes.dtype.kind == "i", "types have no numbers")
        require(codes.shape == ts.shape, "a block of arrivals is incomplete")
        indices(codes, types, "the types of arrivals")
        seen += len(ts)
    require(block["size"] - block["missing"] == seen, "a block of arrivals is incomplete")
    chosen = block.get("chosen")
    require(chosen is None or 0 <= chosen < types, "the type of the clock is unknown")
