"""Events that are not made yet are the same events as those that are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes import Event, EventBatch
from betimes.model.unmade import Events, Unmade, join, own, payloads_of

Rows = list[Event]

PAYLOADS = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3))
EVENTS = st.builds(Event, st.sampled_from("AB"), st.integers(0, 9), PAYLOADS)
BARE = st.builds(Event, st.sampled_from("AB"), st.integers(0, 9))


def unmade(rows: Rows) -> Unmade:
    return Unmade.of(EventBatch.from_rows(rows))


@given(st.lists(EVENTS, max_size=6) | st.lists(BARE, max_size=6), st.data())
def test_they_become_the_events_of_the_batch(rows: Rows, data: st.DataObject) -> None:
    events = unmade(rows)
    assert list(events) == rows == [events[row] for row in range(len(events))]
    assert payloads_of(events) == payloads_of(rows)
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    assert list(events.part(low, high)) == rows[low:high]
    picked = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    found = events.pick(np.array(picked, np.int64), picked)
    assert list(found) == [rows[row] for row in picked]


@given(st.lists(st.tuples(st.lists(EVENTS) | st.lists(BARE), st.booleans()), min_size=1))
def test_joined_they_follow_each_other_and_no_batch_changes(
    parts: list[tuple[Rows, bool]],
) -> None:
    events: list[Events] = [unmade(rows) if columns else list(rows) for rows, columns in parts]
    every = [event for rows, _ in parts for event in rows]
    ts = np.array([event.ts for event in every], np.int64)
    assert list(join([own(events[0]), *events[1:]], ts)) == every
    assert [list(each) for each in events] == [rows for rows, _ in parts]
