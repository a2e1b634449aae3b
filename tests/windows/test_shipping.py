"""What travels to other processes arrives as it was, to the kind of each value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.model.codec import dumps, loads
from betimes.windows.messages import CLOSE, EVENT, OPEN, Message
from betimes.windows.shipping import EVENTS, shipped, unshipped
from tests.engine.material import share

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integers": st.integers(-(2**63), 2**63 - 1),
    "large": st.integers(-(2**70), 2**70),
    "numbers": st.integers(0, 2) | st.floats() | st.booleans(),
    "nulls": st.none() | st.floats(),
    "nothing": st.none(),
    "text": st.text(st.characters(codec=None), max_size=3),
    "bytes": st.binary(max_size=3),
    "nested": st.lists(st.integers(0, 2), max_size=2) | st.tuples(st.booleans()),
}
TIES: st.SearchStrategy[Any] = st.integers(0, 9) | st.tuples(st.text(max_size=1), st.integers(0, 9))


def there_and_back(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    data = dumps(shipped(messages), "messages")
    return loads(data, "messages"), list(unshipped(loads(data, "messages")))


@pytest.mark.parametrize("kind", VALUES)
@given(st.data())
@share(0.3)
def test_messages_arrive_as_they_were(kind: str, data: st.DataObject) -> None:
    keys: list[Any] = data.draw(st.sampled_from([[None], [1, 1.0, True], ["a", "b"]]))
    ties = data.draw(st.sampled_from([st.just(3), TIES]))
    columns = data.draw(st.sampled_from([("v",), ("v", "w"), ()]))
    messages: list[Message] = []
    for number in range(data.draw(st.integers(0, 60))):
        key = keys[number * len(keys) // 60]
        payload = {name: data.draw(VALUES[kind]) for name in columns}
        place = (number, 0, data.draw(ties))
        messages.append((EVENT, number, key, place, Event("A", number, payload)))
        if data.draw(st.integers(0, 40)) == 0:
            messages.append((OPEN, number, 7, key, place, (number, None)))
    assert repr(there_and_back(messages)[1]) == repr(messages)


def test_long_runs_of_plain_events_travel_as_columns() -> None:
    events = [(EVENT, n, "k", (n, 0, n), Event("A", n, {"v": n / 2})) for n in range(100)]
    closing = (CLOSE, 100, 1, ((99, 0, 99), (99, 0, 99), 100, 99, True))
    sent, came = there_and_back([*events, closing])
    assert [message[0] for message in sent] == [EVENTS, CLOSE]
    assert came == [*events, closing]
