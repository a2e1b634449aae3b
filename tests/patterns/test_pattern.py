"""Patterns at work: what the text form finds, what it publishes, which options make sense."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.model import Event
from betimes.patterns.pattern import Pattern, pattern
from betimes.patterns.steps import PatternError, Spec, Step
from tests.patterns.test_expressions import marked


def stream(text: str) -> list[Event]:
    """`A1 B3:7`: an A at 1, a B at 3 with v=7."""
    events = []
    for each in text.split():
        place, _, v = each.partition(":")
        events.append(Event(place[0], int(place[1:]), {"v": int(v)} if v else {}))
    return events


def found(pattern: Pattern, events: Iterable[Event]) -> list[Event]:
    detector = pattern.make()
    return [made for event in events for made in detector.on_event(event) or ()]


def matches(text: str, events: str, **options: Any) -> list[str]:
    """The matches, each as the names and times of its events."""
    return [
        " ".join(f"{name}{ts}" for name, ts in bound_of(made))
        for made in found(pattern(text, emits="hit", **options), stream(events))
    ]


def bound_of(made: Event) -> list[tuple[str, int]]:
    times = {name[:-3]: ts for name, ts in made.payload.items() if name.endswith(".ts")}
    pairs = [
        (name, each)
        for name, ts in times.items()
        for each in (ts if isinstance(ts, list) else [ts])
    ]
    return sorted(pairs, key=lambda pair: pair[1])


FINDS: dict[tuple[str, str], list[str]] = {
    ("A C", "A1 C2"): ["A1 C2"],
    ("A C", "A1 X2 C3 C4"): ["A1 C3"],
    ("A C", "A1 A2 C3 C4 A5 C6"): ["A1 C3", "A5 C6"],
    ("A !B C", "A1 C2"): ["A1 C2"],
    ("A !B C", "A1 B2 C3"): [],
    ("A !B C", "A1 B2 A3 C4"): ["A3 C4"],
    ("A !B C", "B1 A2 C3 B4"): ["A2 C3"],
    ("A !(B|X) C", "A1 X2 C3 A4 C5"): ["A4 C5"],
    ("A-C", "A1 C2"): ["A1 C2"],
    ("A-C", "A1 X2 C3"): [],
    ("A-C", "A1 A2 C3"): ["A2 C3"],
    ("A -!B C", "A1 X2 B3 C4"): ["A1 C4"],
    ("A -!B C", "A1 B2 C4"): [],
    ("(A|B) C", "B1 C2 A3 C4"): ["B1 C2", "A3 C4"],
    ("A B+ C", "A1 B2 B3 C4"): ["A1 B2 B3 C4"],
    ("A B+ C", "A1 C4"): [],
    ("A B* C", "A1 C4"): ["A1 C4"],
    ("A B* C", "A1 B2 X3 B4 C5"): ["A1 B2 B4 C5"],
    ("A B? C", "A1 C2 A3 B4 C5"): ["A1 C2", "A3 B4 C5"],
    ("A B{2} C", "A1 B2 C3 B4 C5"): ["A1 B2 B4 C5"],
    ("A B{2,3} C", "A1 B2 B3 B4 C5"): ["A1 B2 B3 B4 C5"],
    ("A (B C)+ D", "A1 B2 C3 B4 C5 D6"): ["A1 B2 C3 B4 C5 D6"],
    ("A (B|C)+ D", "A1 B2 C3 B4 D6"): ["A1 B2 C3 B4 D6"],
    ("A (B !X C)+ D", "A1 B2 X3 C4 D5"): [],
    ("A (B !X C)+ D", "A1 B2 C3 B4 X5 C6 D7"): ["A1 B2 C3 D7"],
    ("A B+", "A1 B2 B3"): ["A1 B2"],
}


@pytest.mark.parametrize(("text", "events"), FINDS)
def test_what_is_found(text: str, events: str) -> None:
    assert matches(text, events) == FINDS[text, events]


def test_any_later_event_in_all_combinations() -> None:
    assert matches("A ... C", "A1 C2 A3 C4", skip="none") == ["A1 C2", "A1 C4", "A3 C4"]
    assert matches("A C", "A1 A2 C3 C4", skip="none") == ["A1 C3", "A2 C3"]


def test_conditions_of_the_whole() -> None:
    where = "C.v > A.v and v < 9"
    assert matches("A C", "A1:5 C2:4 C3:9 C4:6", where=where) == ["A1 C4"]
    assert matches("A B+ C", "A1:0 B2:3 B3:5 C4:0 B5:7 C6:0", where="avg(B.v) > 4") == [
        "A1 B2 B3 B5 C6"
    ]
    assert matches("A B+ C", "A1:5 B2:4 B3:6 C4:0", where="B.v > A.v") == ["A1 B3 C4"]
    assert matches("A !B C", "A1:5 B2:4 C3:0", where="B.v > A.v") == ["A1 C3"]
    assert matches("A !B C", "A1:5 B2:6 C3:0", where="B.v > A.v") == []


def test_conditions_in_python_mean_the_same() -> None:
    events = "A1:5 C2:4 A3:1 C4:6"
    text = {"C": "type == 'C' and v > A.v"}
    python = {"C": lambda event, bound: event.type == "C" and event["v"] > bound["A"][-1]["v"]}
    assert matches("A C", events, define=text) == matches("A C", events, define=python)


def test_a_window_is_without_its_end() -> None:
    assert matches("A C", "A1 C4", within=4) == ["A1 C4"]
    assert matches("A C", "A1 C5", within=4) == []
    assert matches("A C", "A1 A3 C5", within=4) == ["A3 C5"]


@given(
    st.lists(st.tuples(st.sampled_from("ABCX"), st.integers(0, 3)), max_size=30),
    st.integers(1, 8),
)
def test_the_default_meaning(steps: list[tuple[str, int]], within: int) -> None:
    """Relaxed, the earliest open A wins, and a match does away with those that began before."""
    events, ts = [], 0
    for type, gap in steps:
        ts += gap
        events.append(Event(type, ts))

    def expected() -> Iterator[tuple[int, int]]:
        open_: list[int] = []
        for event in events:
            open_ = [start for start in open_ if event.ts - start < within]
            if event.type == "A":
                open_.append(event.ts)
            elif event.type == "B":
                open_ = []
            elif event.type == "C" and open_:
                yield open_[0], event.ts
                open_ = []

    made = found(pattern("A !B C", emits="hit", within=within), events)
    assert [(each["A.ts"], each["C.ts"]) for each in made] == list(expected())


# What is published


def test_every_bound_event_is_in_the_payload() -> None:
    events = [
        Event("A", 1, {"player": "P7", "ts": "mine", "a": None}),
        Event("B", 2, {"v": 1}),
        Event("B", 3, {"w": 2}),
        Event("D", 4),
    ]
    (made,) = found(pattern("A B+ C? D", emits="hit"), events)
    assert made == Event(
        "hit",
        4,
        {
            "A.ts": 1,
            "A.player": "P7",
            "A.a": None,
            "B.ts": [2, 3],
            "B.v": [1, None],
            "B.w": [None, 2],
            "D.ts": 4,
        },
    )


def test_steps_of_repeated_groups_are_lists() -> None:
    (made,) = found(pattern("(A (B|C))+ D", emits="hit"), stream("A1:5 B2 D3"))
    assert made.payload == {"A.ts": [1], "A.v": [5], "B.ts": [2], "D.ts": 3}


def test_select_shapes_the_payload() -> None:
    select = {
        "speed": "avg(B.v)",
        "rise": "C.v - A.v",
        "last": "B.v",
        "ts": "ts",
        "took": "ts - A.ts",
        "none": "D.v",
        "type": "A.type",
        "fast": "max(B.v) > 5",
    }
    (made,) = found(pattern("A B+ D? C", emits="hit", select=select), stream("A1:5 B2:6 B3:8 C4:9"))
    assert made.payload == {
        "speed": 7.0,
        "rise": 4,
        "last": 8,
        "ts": 4,
        "took": 3,
        "none": None,
        "type": "A",
        "fast": True,
    }


def test_nothing_until_the_time_is_over() -> None:
    detector = pattern("A !B", within=5, emits="quiet").make()
    assert detector.on_event(Event("A", 1)) is None
    assert detector.deadline == 6
    assert detector.on_time(5) is None
    assert detector.on_time(6) == [Event("quiet", 6, {"A.ts": 1})]
    assert detector.deadline is None
    made = found(pattern("A !B", within=5, emits="quiet"), stream("A1 B2 A3 A9"))
    assert made == [Event("quiet", 8, {"A.ts": 3})]


def test_partial_matches_that_ran_out_of_time() -> None:
    options: dict[str, Any] = {"within": 5, "emits": "hit", "timeouts": "missed"}
    made = found(pattern("A C", **options), stream("A1:7 C2:8 A3:9 X8"))
    assert [(each.type, each.ts) for each in made] == [("hit", 2), ("missed", 8)]
    assert made[1].payload == {"A.ts": 3, "A.v": 9}
    select = {"rise": "C.v - A.v", "from": "A.v"}
    made = found(pattern("A C", select=select, **options), stream("A3:9 X8"))
    assert made == [Event("missed", 8, {"rise": None, "from": 9})]
    detector = pattern("A C", **options).make()
    detector.on_event(Event("A", 3))
    assert detector.on_time(8) == [Event("missed", 8, {"A.ts": 3})]


def test_too_many_partial_matches() -> None:
    events = stream("A1 A2 A3 C4")
    with pytest.raises(PatternError, match="limit=2"):
        found(pattern("A C", emits="hit", limit=2), events)
    side = pattern("A C", emits="hit", limit=2, overflow="side", select={"to": "C.ts"})
    made = found(side, events)
    assert [each.type for each in made] == ["overflow", "hit"]
    assert made[0].payload == {"A.ts": 1}


@given(
    st.sampled_from(["A !B C", "A B+ C", "(A B)+ C", "A ... C", "A !B"]),
    st.lists(st.sampled_from("ABC"), max_size=15),
    st.integers(0, 15),
)
def test_a_detector_goes_on_from_its_snapshot(text: str, types: list[str], cut: int) -> None:
    events = [Event(type, 2 * ts, {"v": ts}) for ts, type in enumerate(types)]
    made = pattern(text, emits="hit", within=10, timeouts="missed")
    first, second = made.make(), made.make()
    for event in events[:cut]:
        first.on_event(event)
    kept = first.snapshot()
    expected = [first.on_event(event) for event in events[cut:]]
    second.restore(kept)
    assert [second.on_event(event) for event in events[cut:]] == expected
    assert second.snapshot() == first.snapshot()
    second.restore(kept)
    assert [second.on_event(event) for event in events[cut:]] == expected


# What it looks at


INPUTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "A !B C": ({}, ("A", "B", "C")),
    "(A|B) !(C|D) E": ({}, ("A", "B", "C", "D", "E")),
    "(A B)+ C": ({}, ("A", "B", "C")),
    "A C": ({"on": "x"}, ("x",)),
    "A  C": ({"on": ["x", "y"]}, ("x", "y")),
    "A B": ({"define": {"A": "type in ('x', 'y') and v > 5"}}, ("B", "x", "y")),
    "A  B": ({"define": {"A": "v > 5"}}, ("*", "B")),
    "A   B": ({"define": {"A": lambda event: event["v"] > 5}}, ("*", "B")),
    "A-B": ({}, ("*", "A", "B")),
    "A -!B C": ({}, ("*", "A", "B", "C")),
    "A - B": ({"where": "type in ('A', 'B', 'X')"}, ("A", "B", "X")),
    "A !B  C": ({"where": "type != 'X'"}, ("A", "B", "C")),
}


@pytest.mark.parametrize("text", INPUTS)
def test_the_types_it_looks_at(text: str) -> None:
    options, inputs = INPUTS[text]
    assert pattern(text, emits="hit", **options).inputs == inputs


def test_the_types_it_publishes() -> None:
    assert pattern("A C").outputs == ()
    assert pattern("A C", emits="hit").outputs == ("hit",)
    every = pattern("A C", emits="hit", within="2s", timeouts="missed", overflow="side")
    assert every.outputs == ("hit", "missed", "overflow")


def test_explain() -> None:
    made = pattern(
        "A !B (C D{2,4})+ (E|F)*",
        define={"A": "type == 'a' and v > 5"},
        where="player == 'P7' and C.v > A.v",
        within="2s",
        by="player",
        emits="hit",
        timeouts="missed",
        name="hits",
    )
    assert made.explain().split("\n") == [
        "hits: B, C, D, E, F, a -> hit, missed, by player",
        "  first    A            type == 'a' and v > 5",
        "  no       !B           type == 'B'",
        "  then     (C D{2,4})+",
        "    first  C            type == 'C' and C.v > A.v",
        "    then   D{2,4}       type == 'D'",
        "  then     (E|F)*       type == 'E' | type == 'F'",
        "only events with player == 'P7'",
        "within 2 s, skip past_last",
        "matcher: general, event by event, because it publishes timeouts, as 'missed'",
    ]


def test_a_pattern_of_any_steps() -> None:
    steps = (
        Step("begin", "a", (("a", None),), least=2, most=3, optional=True),
        Step("followed_by", "b", (("b", None),), within=5),
    )
    made = Pattern(Spec(steps), emits="two", timeouts="late")
    assert made.inputs == ("*",)
    assert "a{2,3}?  any event" in made.explain()
    assert "b        any event, within 5 us" in made.explain()


def test_patterns_can_be_sent() -> None:
    made = pattern("A C", emits="hit", where="C.v > A.v", select={"to": "C.v"})
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert found(again, stream("A1:5 C2:6")) == [Event("hit", 2, {"to": 6})]


# What is refused

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "emits": ({"emits": ""}, "expected emits to be a name, got emits=''"),
    "by": ({"by": 5}, "expected by to be a name, got by=5"),
    "timeouts without within": ({"timeouts": "missed"}, "expected within, such as within='2s'"),
    "the same type twice": (
        {"timeouts": "hit", "within": "2s"},
        "expected different types for emits, timeouts and overflow, got ['hit', 'hit']",
    ),
    "on": ({"on": []}, "expected on to be one or more types of events, got on=[]"),
    "limit": ({"limit": 0}, "got limit=0"),
    "a truth as limit": ({"limit": True}, "got limit=True"),
    "overflow": ({"overflow": "drop"}, "expected overflow to be 'error' or 'side'"),
    "select": ({"select": "A.v"}, "expected select to map columns to expressions"),
    "selected text": ({"select": {"v": 5}}, "expected select['v'] to be an expression as text"),
    "no type left": ({"where": "type == 'X'"}, "expected conditions that some type of event can"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(PatternError) as caught:
        pattern("A C", **({"emits": "hit"} | options))
    assert message in str(caught.value)


SELECTED = {
    "X.v": ("[X.v]", "expected one of the steps 'A', 'C', got 'X'"),
    "B.v": ("[B.v]", "expected one of the steps 'A', 'C', got 'B'"),
    "v + A.v": ("[v] + A.v", "expected a column of a step, as in A.v, or ts"),
    "type": ("[type]", "got 'type'"),
    "avg(A.v": ("avg(A.v[ ]", "expected ')'"),
}


@pytest.mark.parametrize("text", SELECTED)
def test_what_cannot_be_selected(text: str) -> None:
    place, message = SELECTED[text]
    with pytest.raises(PatternError) as caught:
        pattern("A !B C", emits="hit", select={"x": text})
    assert "select['x']\n" in str(caught.value)
    assert marked(caught.value) == place.strip()
    assert message in str(caught.value)


def test_nothing_to_publish() -> None:
    with pytest.raises(PatternError, match="expected a type of event to publish, as in emits"):
        pattern("A C").make()


def test_an_event_without_a_column_is_named() -> None:
    with pytest.raises(PatternError, match=r"'C' at 2 with the columns \[\]"):
        matches("A C", "A1:5 C2", where="C.v > A.v")
