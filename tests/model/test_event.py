"""The event as a detector sees it."""

from __future__ import annotations

import pytest

from betimes.model import Event


def test_an_event_has_type_time_and_payload_and_reads_the_payload_by_name() -> None:
    event = Event("hit", 5, {"player": "P7"})
    assert (event.type, event.ts, event.payload) == ("hit", 5, {"player": "P7"})
    assert event["player"] == "P7"


def test_a_missing_payload_name_is_told_with_the_event_and_what_it_has() -> None:
    with pytest.raises(KeyError, match=r"hit event at 5 has no 'team'; it has \['player'\]"):
        Event("hit", 5, {"player": "P7"})["team"]


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Event("A", 1).ts = 2  # type: ignore[misc]


def test_events_without_payload_do_not_share_it() -> None:
    first, second = Event("A", 1), Event("A", 1)
    first.payload["x"] = 1
    assert second.payload == {}


def test_events_are_equal_by_content() -> None:
    assert Event("A", 1, {"x": 1}) == Event("A", 1, {"x": 1})
    assert Event("A", 1, {"x": 1}) != Event("A", 1, {"x": 2})
