"""Compiled patterns against the general matcher, which is the truth: sort, then run once."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes import (
    Change,
    DetectorError,
    Engine,
    Event,
    EventError,
    Hierarchy,
    Pattern,
    PatternError,
    PatternWarning,
    fold,
    pattern,
)
from betimes.engine.stages.columns import ColumnTactic, runs, store
from betimes.engine.stages.rows import RowTactic
from betimes.testing.oracle import oracle
from tests.engine.material import Watched

OPTIONS = {"attenuation": (1.0, 0.3, 0.0), "retraction": ("full", "on-demand", "auto")}


@pytest.fixture(autouse=True)
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little room and little patience, so that arrays grow and are cleaned up all the time."""
    monkeypatch.setattr(store, "_MANY", 20)
    monkeypatch.setattr(runs, "_ROOM", 4)


# Random patterns of the common class.


def condition(r: random.Random, name: str, earlier: Sequence[str]) -> str | None:
    own = (
        f"type == '{name}'",
        f"type == '{name}' and v > {r.randint(0, 4)}",
        f"v > {r.randint(0, 5)}",
        f"type in ('{name}', 'B') and (v < 3 or v is null)",
        f"type == '{name}' and v + 1 between 2 and 5",
        f"type == '{name}' and not v == 2",
    )
    if earlier and r.random() < 0.4:
        op = r.choice((">", "<", "==", ">=", "!="))
        other = r.choice((f"{r.choice(earlier)}.v", f"{r.choice(earlier)}.v + 1"))
        return f"type == '{name}' and v {op} {other}"
    return r.choice(own) if r.random() < 0.4 else None


def text_pattern(r: random.Random) -> Pattern:
    text, define = "", {}
    earlier: list[str] = []
    steps = "ABCD"[: r.randint(1, 4)]
    for place, name in enumerate(steps):
        if place:
            text += r.choice((" ", " ", " ", "-"))
            if text.endswith(" ") and r.random() < 0.5:
                text += r.choice(("!A ", "!B ", "!C ", "!(A|B) ", "!X ", "!(X|C) ", "!B !C "))
        given_ = condition(r, name, earlier)
        if given_ is None and r.random() < 0.15:
            other = f"E{place}"
            define[other] = r.choice(("type == 'E'", "type == 'E' and v > 2"))
            text += f"({name}|{other})"
            continue
        if given_ is not None:
            define[name] = given_
        text += name
        earlier.append(name)
    options: dict[str, Any] = {}
    if r.random() < 0.5:
        options["within"] = f"{r.randint(1, 25)}us"
    if r.random() < 0.2:
        options["where"] = "v > 0 or v is null"
    if r.random() < 0.2 and len(earlier) == len(steps):
        options["select"] = {"x": f"{earlier[-1]}.v", "t": "ts"}
    by = r.choice((None, "k", "k"))
    return pattern(text, define=define, emits="hit", by=by, **options)


def disordered(r: random.Random, count: int) -> list[Event]:
    ts, made = 0, []
    for number in range(count):
        ts += r.choice((0, 1, 1, 2, 3))
        type = r.choice("AABBCCDXE")
        delay = 0 if type == "X" else r.choice((0, 0, 1, 3, r.randint(0, 15)))
        value = r.choice((0, 1, 2, 3, 4, 5, None))
        event = Event(type, ts, {"k": r.randint(0, 2), "v": value, "i": number})
        made.append((ts + delay, number, event))
    return [event for *_, event in sorted(made, key=lambda item: item[:2])]


def table(events: Sequence[Event]) -> pa.Table:
    columns: dict[str, Any] = {
        name: pa.array([event.payload[name] for event in events], pa.int64()) for name in "kvi"
    }
    own: dict[str, Any] = {
        "ts": [event.ts for event in events],
        "type": [event.type for event in events],
    }
    return pa.table({**own, **columns})


def parts(r: random.Random, events: list[Event]) -> Iterator[list[Event]]:
    low = 0
    while low < len(events):
        high = low + r.choice((1, 2, 7, 30, 100))
        yield events[low:high]
        low = high


def hierarchy_of(made: Pattern, clock: Any = "X") -> Hierarchy:
    hierarchy = Hierarchy(clock=clock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PatternWarning)
        hierarchy.add(made)
    return hierarchy


def check_rows(changes: Sequence[Change]) -> None:
    """Every row makes sense where it stands, and in the end all is final."""
    known: dict[str, str] = {}
    for change in changes:
        before = known.get(change.match_id)
        assert before in {"insert": (None,), "confirm": ("provisional",)}.get(
            change.change_type, ("provisional", "final")
        )
        if change.change_type == "delete":
            del known[change.match_id]
        else:
            known[change.match_id] = change.status
    assert set(known.values()) <= {"final"}


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_order_does_not_show(r: random.Random) -> None:
    try:
        made = text_pattern(r)
    except PatternError:
        return  # such as a condition that no type can fulfil
    hierarchy = hierarchy_of(made, r.choice(("X", ("X", "A"), "*")))
    by, advance, arrow = r.choice((None, None, "k")), r.random() < 0.5, r.random() < 0.5
    chosen: dict[str, Any] = {name: r.choice(values) for name, values in OPTIONS.items()}
    engine = Engine(hierarchy, by=by, retention="1h", **chosen)
    stream = disordered(r, r.randint(0, 90))
    changes: list[Change] = []
    for part in parts(r, stream):
        changes += engine.feed(table(part) if arrow else part)
        if r.random() < 0.15:
            again = Engine(hierarchy, by=by, retention="1h", **chosen)
            again.restore(engine.checkpoint())
            engine = again
        if r.random() < 0.2:
            engine.set_attenuation(r.choice((1.0, 0.0, 0.4)))
    changes += engine.finish(advance=advance)
    assert fold(changes) == oracle(hierarchy, stream, by=by, advance=advance)
    check_rows(changes)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_both_matchers_give_the_same_rows_the_same_identity(r: random.Random) -> None:
    try:
        made = text_pattern(r)
    except PatternError:
        return
    stream = disordered(r, 60)
    ids = []
    for general in (False, True):
        watched = Watched()
        options: Any = {"attenuation": 0.0, "retention": "1h", "observers": [watched]}
        engine = Engine(hierarchy_of(made), **options)
        if general:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Pattern, "why_general", lambda _: "a test wants it")
                engine = Engine(hierarchy_of(made), **options)
        changes = [*engine.feed(stream), *engine.finish()]
        by_rows = general or made.why_general() is not None
        assert isinstance(watched.stages[0].tactic, RowTactic if by_rows else ColumnTactic)
        ids.append(sorted(change.match_id for change in changes if change.status == "final"))
    assert ids[0] == ids[1]


# Single cases.


def run(made: Pattern, events: Any, **options: Any) -> list[tuple[int, dict[str, Any]]]:
    watched = Watched()
    options = {"attenuation": 0.0, "observers": [watched], **options}
    engine = Engine(hierarchy_of(made, "*"), **options)
    changes = [*engine.feed(events), *engine.finish()]
    assert isinstance(watched.stages[0].tactic, ColumnTactic)
    return sorted((ts, payload) for _, ts, payload in _standing(changes))


def _standing(changes: Sequence[Change]) -> list[tuple[str, int, dict[str, Any]]]:
    rows: dict[str, tuple[str, int, dict[str, Any]]] = {}
    for change in changes:
        if change.change_type == "delete":
            del rows[change.match_id]
        else:
            rows[change.match_id] = (change.type, change.ts, change.payload)
    return list(rows.values())


def letters(text: str) -> list[Event]:
    return [Event(letter, ts) for ts, letter in enumerate(text) if letter != "."]


@pytest.mark.parametrize(
    ("text", "stream", "found"),
    [
        ("A C", "AAC", [(2, 0)]),  # the earliest open A wins
        ("A !B C", "ABC", []),
        ("A !B C", "ABAC", [(3, 2)]),
        ("A !(A|B) C", "AAC", [(2, 1)]),
        ("A-C", "ABCAC", [(4, 3)]),
        ("A C", "ACC", [(1, 0)]),
        ("A C", "ACAC", [(1, 0), (3, 2)]),
    ],
)
def test_text_patterns(text: str, stream: str, found: list[tuple[int, int]]) -> None:
    made = pattern(text, emits="hit")
    hits = [(ts, payload["A.ts"]) for ts, payload in run(made, letters(stream))]
    assert hits == found


def test_a_window_is_exclusive() -> None:
    made = pattern("A C", within="3us", emits="hit")
    assert run(made, letters("A..C")) == []
    assert run(made, letters("A.C")) == [(2, {"A.ts": 0, "C.ts": 2})]
    # The first A is too old, the second is not.
    assert run(made, letters("A.A.C")) == [(4, {"A.ts": 2, "C.ts": 4})]


def test_a_match_waits_for_an_older_run_as_long_as_that_is_open() -> None:
    rising = pattern("A C", where="C.v > A.v", within="10us", emits="hit", select={"a": "A.ts"})
    stream = [Event("A", 1, {"v": 5}), Event("A", 2, {"v": 1}), Event("C", 3, {"v": 3})]
    engine = Engine(hierarchy_of(rising, "*"), attenuation=0.0)
    assert not engine.feed(stream)
    (change,) = engine.feed([Event("X", 11, {"v": 0})])
    assert (change.ts, change.payload, change.cause) == (3, {"a": 2}, "time at 11")
    closer = [Event("C", 10, {"v": 9}), Event("X", 20, {"v": 0})]
    changes = [*engine.feed(closer), *engine.finish()]
    told = [(c.change_type, c.payload["a"]) for c in changes if c.change_type != "confirm"]
    assert told == [("delete", 2), ("insert", 1)]


def test_texts_of_different_steps_are_compared() -> None:
    same = pattern("A C", where="C.name == A.name", emits="hit", select={"a": "A.ts"})
    stream = [
        Event("A", 1, {"name": "x"}),
        Event("A", 2, {"name": "y"}),
        Event("C", 3, {"name": "y"}),
        Event("C", 4, {"name": "x"}),
    ]
    # The second match is complete first, but ends with the first, which is older.
    assert run(same, stream) == [(4, {"a": 1})]
    assert run(same, pa.table({
        "ts": [1, 3], "type": ["A", "C"], "name": ["y", "y"],
    })) == [(3, {"a": 1})]  # fmt: skip


def test_numbers_of_any_size_are_equal_only_if_they_are() -> None:
    same = pattern("A C", where="C.v == A.v", emits="hit")
    large = [Event("A", 1, {"v": 2**60}), Event("C", 2, {"v": 2**60 + 1})]
    assert run(same, large) == []
    assert len(run(same, [*large, Event("C", 3, {"v": 2**60})])) == 1
    assert len(run(same, [Event("A", 1, {"v": 1}), Event("C", 2, {"v": 1.0})])) == 1


@pytest.mark.parametrize(
    ("where", "values", "message"),
    [
        ("C.v == A.v", ("x", 7), "'v' of different steps, which holds both text and numbers"),
        ("C.v > A.v", ("y", "x"), "orders by 'v'.*as a function in Python"),
        ("C.v + 1 > A.v", ("y", "x"), "calculates with it, but it holds text"),
        ("C.v > A.v", (1, 2**60), f"which holds {2**60}: too large to be exact"),
        ("C.w > A.v", (1, 2), "has no 'w'; it has .'v'."),
        ("C.v > 5", (1, "x"), "expected only numbers or only text"),
        ("C.w > 5", (1, 2), r"w.*\bv\b"),
    ],
)
@pytest.mark.parametrize("arrow", [False, True])
def test_what_cannot_be_compared_is_named(
    where: str, values: tuple[Any, Any], message: str, arrow: bool
) -> None:
    made = pattern("A C", where=where, emits="hit")
    first, second = values
    stream: Any = [Event("A", 1, {"v": first}), Event("C", 2, {"v": second})]
    if arrow and type(first) is type(second):
        stream = pa.table({"ts": [1, 2], "type": ["A", "C"], "v": list(values)})
    with pytest.raises(DetectorError, match=f"(?s)'hit' failed.*{message}"):
        run(made, stream)


def test_errors_can_be_skipped_and_are_counted() -> None:
    made = pattern("A C", where="C.v > 5", emits="hit")
    stream = [Event("A", 1, {"v": 0}), Event("C", 2, {"v": "x"}), Event("C", 3, {"v": 7})]
    engine = Engine(hierarchy_of(made, "*"), attenuation=0.0, errors="skip")
    changes = [*engine.feed(stream), *engine.finish()]
    assert [change.ts for change in changes if change.change_type == "insert"] == [3]
    assert engine.stats["hit"].errors == 1


def test_what_is_complete_is_told_at_the_end_even_if_an_older_run_is_open() -> None:
    rising = pattern("A C", where="C.v > A.v", emits="hit", select={"a": "A.ts"})
    stream = [Event("A", 1, {"v": 9}), Event("A", 2, {"v": 1}), Event("C", 3, {"v": 5})]
    assert run(rising, stream) == [(3, {"a": 2})]
    assert oracle(hierarchy_of(rising), stream).total() == 1
    assert oracle(hierarchy_of(rising), stream, advance=False).total() == 0


def test_a_strict_pattern_sees_matches_of_other_patterns() -> None:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(pattern("A B", emits="ab"))
    hierarchy.add(pattern("ab-C", emits="abc"))
    engine = Engine(hierarchy)
    changes = [*engine.feed(letters("ABCABXC")), *engine.finish()]
    assert {change.ts for change in changes if change.type == "abc"} == {2}


def test_events_without_the_key_are_a_key_of_their_own_where_every_type_is_seen() -> None:
    made = pattern("A-B", by="k", emits="hit")
    stream = [Event("A", 1, {"k": 1}), Event("X", 2), Event("B", 3, {"k": 1})]
    assert run(made, stream) == [(3, {"A.ts": 1, "A.k": 1, "B.ts": 3, "B.k": 1})]
    assert oracle(hierarchy_of(made), stream).total() == 1


def test_a_missing_key_is_named() -> None:
    made = pattern("A C", by="k", emits="hit")
    with pytest.raises(EventError, match="has by='k', but"):
        run(made, letters("AC"))


def test_the_limit_is_loud() -> None:
    rising = pattern("A C", where="C.v > A.v", emits="hit", limit=10)
    stream = [Event("A", ts, {"v": ts}) for ts in range(20)]
    with pytest.raises(PatternError, match=r"'hit' has more than 10 partial matches.*within="):
        run(rising, stream, errors="skip")


def test_runs_that_do_not_matter_any_more_are_dropped() -> None:
    made = hierarchy_of(pattern("A B C", emits="hit"), "*")
    watched = Watched()
    engine = Engine(made, attenuation=0.0, retention="100us", observers=[watched])
    for low in range(0, 5000, 100):
        engine.feed([Event("A", ts) for ts in range(low, low + 100)])
    (stage,) = watched.stages
    tactic = stage.tactic
    assert isinstance(tactic, ColumnTactic)
    head = int(tactic._runs.heads[0])
    assert tactic._runs._runs[5, head] == 1  # a list of one
    assert tactic._store._size < 2000


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("A B+ C", {}, "B is optional or repeated"),
        ("A ... C", {}, "C follows by followed_by_any"),
        ("A !C", {"within": "5s"}, "it ends with !C"),
        ("A C", {"skip": "none"}, "skip is none"),
        ("(A B)+ C", {}, "is a group"),
        ("A C", {"define": {"C": lambda event: event.ts > 3}}, "is a Python function"),
        ("A C", {"timeouts": "missed", "within": "5s"}, "it publishes timeouts"),
        ("A C", {"overflow": "side"}, "it publishes overflows"),
    ],
)
def test_what_is_not_compiled_says_why(text: str, options: dict[str, Any], why: str) -> None:
    made = pattern(text, emits="hit", **options)
    assert why in str(made.why_general())
    assert f"general, event by event, because {made.why_general()}" in made.explain()


def test_late_events_go_aside_and_absurd_ones_are_rejected() -> None:
    made = pattern("A C", emits="hit")
    engine = Engine(hierarchy_of(made, "*"), attenuation=1.0, late="side", slack="5us")
    stream = [Event("X", ts) for ts in range(0, 100, 10)]
    changes = [*engine.feed(stream), *engine.feed([Event("A", 3, {"v": 1}), Event("X", 200)])]
    changes += engine.feed([Event("X", 10**15, {"v": 7}), Event("X", 210)])
    side = {change.type: change.payload for change in [*changes, *engine.finish()]}
    assert side == {
        "late": {"v": 1, "event": "A", "late_by": 82},
        "rejected": {"v": 7, "event": "X"},
    }
    assert engine.stats["hit"].late == 1
