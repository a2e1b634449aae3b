"""The waiting room by itself: whatever comes and goes, rows are found under their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.engine.stages import waiting
from betimes.engine.stages.rows.history import EventRows
from betimes.engine.stages.waiting import WaitingRoom
from betimes.model import Event


def rows_of(numbers: list[int]) -> EventRows:
    """Events that say which rows they are."""
    column = np.array(numbers, np.int64)
    events = [Event("A", number) for number in numbers]
    return EventRows(column, None, column, events, column, list(numbers))


def room() -> WaitingRoom[EventRows]:
    return WaitingRoom(EventRows.nothing(), EventRows.join)


@pytest.mark.parametrize("step", [1, 3], ids=["every row waits", "some rows wait"])
@pytest.mark.parametrize("spare", [0, 20])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_found_whatever_was_dropped(
    monkeypatch: pytest.MonkeyPatch, step: int, spare: int, seed: int
) -> None:
    monkeypatch.setattr(waiting, "_SPARE", spare)
    rng = np.random.default_rng(seed)
    found, held, row = room(), [], 0
    for _ in range(60):
        new = list(range(row, row + step * int(rng.integers(0, 6)), step))
        row = new[-1] + step if new else row
        found.put(np.array(new, np.int64), rows_of(new))
        held += new
        taken = rng.permutation(held)[: rng.integers(0, 5)] if held else np.empty(0, np.int64)
        events = found.take(taken)
        assert [event.ts for event in events.events] == taken.tolist()
        assert events.ts.tolist() == events.tie.tolist() == taken.tolist()  # type: ignore[union-attr]
        assert (events.keys or []) == taken.tolist()
        held = [number for number in held if rng.random() < 0.8]
        # The unit also holds clock events, which do not wait.
        found.trim(rng.permutation([*held, row + 1000]))
        assert len(found.events) <= max(2 * (len(held) + 1) + spare, len(held))


def test_what_was_put_in_is_not_changed() -> None:
    found, first = room(), rows_of([0, 1])
    found.put(np.array([0, 1]), first)
    found.put(np.array([2]), rows_of([2]))
    assert len(found.events) == 3
    assert len(first.events) == len(first.keys or []) == 2, "other stages read the same lists"


def test_a_row_that_does_not_wait_is_an_error() -> None:
    found = room()
    with pytest.raises(LookupError, match="of 1 events 0 wait"):
        found.take(np.array([0]))
    found.put(np.array([0, 1, 2]), rows_of([0, 1, 2]))
    with pytest.raises(LookupError, match="of 2 events 1 wait"):
        found.take(np.array([2, 3]))


def test_it_resumes_with_rows_that_were_not_joined_yet() -> None:
    found, again = room(), room()
    found.put(np.array([0]), rows_of([0]))
    found.put(np.array([5]), rows_of([5]))
    rows, events = found.state_of()
    again.resume(rows, EventRows(*events))
    assert [event.ts for event in again.take(np.array([5, 0])).events] == [5, 0]
