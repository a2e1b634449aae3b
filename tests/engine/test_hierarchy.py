"""Wiring detectors: what is accepted as one, what is refused, levels, pictures."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from betimes.engine import Engine, Hierarchy, HierarchyError
from betimes.model import BetimesError, Event, EventError, OptionError
from betimes.model.change import fold
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from tests.engine.material import BatchSum, Count, odd, one_by_one, tick


def soccer() -> Hierarchy:
    hierarchy = Hierarchy(clock="ball", inputs=("ball", "near"))
    hierarchy.add(Count("hit"), on=("near", "ball"), emits="hit", name="hits")
    hierarchy.add(Count("pass"), on="hit", emits="pass", name="passes", by="team")
    hierarchy.add(Count("shot"), on=("hit", "ball"), emits="shot", name="shots")
    hierarchy.add(Count("goal"), on=("pass", "shot"), emits="goal", name="goals")
    return hierarchy


# Kinds of detectors


def passes(event: Event) -> Event:
    return Event("made", event.ts)


def passes_two(event: Event) -> Iterator[Event]:
    yield Event("made", event.ts)


def passes_as(out: str, event: Event) -> Event:
    return Event(out, event.ts)


class OnEvent:
    def on_event(self, event: Event) -> Event:
        return Event("made", event.ts)


class Frozen:
    __slots__ = ()

    def on_event(self, event: Event) -> Event:
        return Event("made", event.ts)


DETECTORS: dict[str, Any] = {
    "class": OnEvent,
    "class with slots": Frozen,
    "template instance": Count("made", every=1),
    "factory": lambda: Count("made", every=1),
    "partial of a class": functools.partial(Count, "made", 1),
    "function": passes,
    "generator function": passes_two,
    "lambda": lambda event: passes(event),
    "partial of a function": functools.partial(passes_as, "made"),
    "bound method": OnEvent().on_event,
    "function with a default": lambda event, out="made": Event(out, event.ts),
}


@pytest.mark.parametrize("kind", DETECTORS)
def test_every_kind_of_detector_detects(kind: str) -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(DETECTORS[kind], on="A", emits="made")
    changes = one_by_one(Engine(hierarchy), [tick(ts, k=0) for ts in (1, 5, 3)])
    assert sorted(ts for _, ts, _ in fold(changes)) == [1, 3, 5]


def test_a_template_is_never_used_itself() -> None:
    template = Count("made")
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(template, on="A", emits="made")
    one_by_one(Engine(hierarchy), [tick(ts, k=0) for ts in range(5)])
    assert template == Count("made")


def test_two_engines_share_nothing() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Count("made"), on="A", emits="made")
    one, another = Engine(hierarchy), Engine(hierarchy)
    one.feed([tick(ts, k=0) for ts in range(5)])
    stream = [tick(ts, k=0) for ts in range(4)]
    assert [c.payload["n"] for c in one_by_one(another, stream) if c.change_type == "insert"] == [
        2,
        4,
    ]


class Neither:
    pass


@pytest.mark.parametrize(
    "detector", [5, "text", None, Neither, Neither(), dict, lambda a, b: a + b]
)
def test_what_is_no_detector_is_refused(detector: Any) -> None:
    with pytest.raises(OptionError, match="expected"):
        Hierarchy().add(detector, on="A", emits="made", name="culprit")


def test_an_object_that_can_be_called_keeps_its_state_or_is_refused() -> None:
    class Counter:
        n = 0

        def __call__(self, event: Event) -> Event:
            self.n += 1
            return Event("made", event.ts, {"n": self.n})

    hierarchy = Hierarchy(clock="A")
    try:
        hierarchy.add(Counter(), on="A", emits="made")
    except OptionError:
        return
    changes = one_by_one(Engine(hierarchy, attenuation=0.0), [tick(ts) for ts in (1, 5, 3)])
    assert sorted(c.payload["n"] for c in changes if c.status == "final") == [1, 2, 3]


# What is refused


@pytest.mark.parametrize(
    ("wires", "cycle"),
    [
        ([("x", "x")], "n0 -> n0"),
        ([("x", "y"), ("y", "x")], "n0 -> n1 -> n0|n1 -> n0 -> n1"),
        ([("A", "x"), ("x", "y"), ("y", "z"), ("z", "y")], "-> n"),
    ],
)
def test_a_cycle_is_refused_and_shown(wires: list[tuple[str, str]], cycle: str) -> None:
    hierarchy = Hierarchy()
    for number, (on, emits) in enumerate(wires[:-1]):
        hierarchy.add(odd(emits), on=on, emits=emits, name=f"n{number}")
    on, emits = wires[-1]
    with pytest.raises(HierarchyError, match=f"without a cycle, got .*({cycle}).*another type"):
        hierarchy.add(odd(emits), on=on, emits=emits, name=f"n{len(wires) - 1}")
    assert len(hierarchy) == len(wires) - 1, "the one that closes the cycle is not added"
    assert isinstance(HierarchyError(""), BetimesError)


def test_a_type_that_nobody_publishes_is_refused_if_the_inputs_are_declared() -> None:
    hierarchy = Hierarchy(inputs=("ball",))
    hierarchy.add(Count("hit"), on=("ball", "naer"), emits="hit", name="hits")
    with pytest.raises(HierarchyError, match=r"'hits' subscribes to 'naer'.*inputs=\['ball'\]"):
        Engine(hierarchy)


def test_without_declared_inputs_every_type_may_come() -> None:
    hierarchy = Hierarchy()
    hierarchy.add(Count("hit"), on=("ball", "naer"), emits="hit")
    hierarchy.check()


def test_a_type_is_an_input_or_published() -> None:
    hierarchy = Hierarchy(inputs=("ball", "hit"))
    hierarchy.add(Count("hit"), on="ball", emits="hit")
    with pytest.raises(HierarchyError, match=r"\['hit'\] are both; rename"):
        hierarchy.check()


def test_a_name_is_given_once() -> None:
    hierarchy = Hierarchy()
    hierarchy.add(Count("hit"), on="ball", emits="hit")
    with pytest.raises(HierarchyError, match="name='Count' twice; rename one of them"):
        hierarchy.add(Count("kick"), on="ball", emits="kick")


def test_one_detector_has_one_name() -> None:
    hierarchy = Hierarchy()
    hierarchy.add(passes, on="ball", emits="made", name="one")
    with pytest.raises(HierarchyError, match="'another' and 'one' are two names for one thing"):
        hierarchy.add(passes, on="ball", emits="made", name="another")
    hierarchy.add(passes, on="ball", emits="made", by="k", name="by key")
    hierarchy.add(passes, on="near", emits="made", name="of others")


def test_a_type_is_spelled_one_way() -> None:
    hierarchy = Hierarchy()
    hierarchy.add(Count("hit"), on="ball", emits="hit", name="hits")
    hierarchy.add(Count("goal"), on="Hit", emits="goal", name="goals")
    with pytest.raises(HierarchyError, match="'Hit' and 'hit' are two names for one thing"):
        Engine(hierarchy)


def test_an_empty_hierarchy_is_refused() -> None:
    with pytest.raises(HierarchyError, match="at least one detector"):
        Engine(Hierarchy())


@pytest.mark.parametrize("option", ["on", "emits"])
@pytest.mark.parametrize("value", ["", (), [1], ["", "A"]])
def test_types_are_names(option: str, value: Any) -> None:
    types = {"on": "A", "emits": "B"} | {option: value}
    with pytest.raises(OptionError, match=f"expected {option} to be one or more event types, got"):
        Hierarchy().add(passes, **types)


# Levels and pictures


def test_a_level_is_one_more_than_the_highest_below() -> None:
    assert soccer().levels() == {"hits": 1, "passes": 2, "shots": 2, "goals": 3}


def test_levels_do_not_depend_on_the_order_of_adding() -> None:
    hierarchy = Hierarchy()
    for node in reversed(list(soccer())):
        hierarchy.add(node.maker.source, on=node.on, emits=node.emits, name=node.name)
    assert hierarchy.levels() == soccer().levels()


def test_detectors_run_lowest_level_first() -> None:
    assert list(Engine(soccer()).stats) == ["hits", "passes", "shots", "goals"]
    assert {s.detector: s.level for s in Engine(soccer()).stats.values()} == soccer().levels()


def test_explain_as_a_tree() -> None:
    assert soccer().explain().splitlines() == [
        "level 0  near, ball",
        "level 1  hits: near, ball -> hit",
        "level 2  passes: hit -> pass by team",
        "level 2  shots: hit, ball -> shot",
        "level 3  goals: pass, shot -> goal",
    ]


def test_explain_as_mermaid() -> None:
    assert soccer().explain("mermaid").splitlines() == [
        "flowchart BT",
        "    in_near([near]) -->|near| hits[hits]",
        "    in_ball([ball]) -->|ball| hits[hits]",
        "    hits -->|hit| passes[passes]",
        "    hits -->|hit| shots[shots]",
        "    in_ball([ball]) -->|ball| shots[shots]",
        "    passes -->|pass| goals[goals]",
        "    shots -->|shot| goals[goals]",
    ]


def test_mermaid_names_a_detector_one_way() -> None:
    hierarchy = Hierarchy()
    hierarchy.add(odd("x"), on="A", emits="x", name="the first")
    hierarchy.add(odd("y"), on="x", emits="y", name="the second")
    last = hierarchy.explain("mermaid").splitlines()[-1]
    assert last == "    the_first -->|x| the_second[the second]"


def test_explain_as_dot() -> None:
    lines = soccer().explain("dot").splitlines()
    assert lines[:3] == ["digraph betimes {", "    rankdir=BT;", lines[2]]
    assert '    "input ball" -> "hits" [label="ball"];' in lines
    assert '    "hits" -> "passes" [label="hit"];' in lines
    assert lines[-1] == "}"


def test_an_unknown_picture_is_refused() -> None:
    with pytest.raises(OptionError, match="tree, mermaid or dot, got format='png'"):
        soccer().explain("png")


def test_a_detector_per_batch_is_known_by_its_method() -> None:
    hierarchy = Hierarchy()
    hierarchy.add(BatchSum("sum"), on="A", emits="sum")
    assert [node.maker.kind for node in hierarchy] == ["batch"]


@pytest.mark.parametrize("type", ["late", "rejected", "betimes.tick", "betimes.pseudo"])
def test_the_engines_own_types_are_not_for_detectors(type: str) -> None:
    """A tick that a detector made would move every clock above it."""
    hierarchy = Hierarchy(clock="A")
    with pytest.raises(HierarchyError, match=f"the engine itself publishes.*rename '{type}'"):
        hierarchy.add(lambda event: event, on="A", emits=type)


def test_nobody_reads_what_betimes_says_to_itself() -> None:
    with pytest.raises(HierarchyError, match=r"speaks to itself.*leave 'betimes.tick' out"):
        Hierarchy(clock="A").add(lambda event: event, on=("A", "betimes.tick"), emits="x")


@pytest.mark.parametrize("clock", ["hit", "Ball", ("hit", "Ball")])
def test_a_clock_that_no_event_could_move_is_refused(clock: tuple[str, ...] | str) -> None:
    hierarchy = Hierarchy(clock=clock, inputs=("ball",))
    hierarchy.add(lambda event: event, on="ball", emits="hit", name="hits")
    with pytest.raises(HierarchyError, match=r"detector 'hits' has clock=.* but it does not see"):
        Engine(hierarchy)


def test_one_clock_type_that_it_sees_is_enough() -> None:
    hierarchy = Hierarchy(clock=("ball", "hit"), inputs=("ball",))
    hierarchy.add(lambda event: Event("hit", event.ts), on="ball", emits="hit", name="hits")
    hierarchy.add(lambda event: Event("goal", event.ts), on="hit", emits="goal", name="goals")
    some = [Event("ball", ts) for ts in range(5)]
    engine = Engine(hierarchy)
    assert fold([*engine.feed(some), *engine.finish()]) == oracle(hierarchy, some)


@pytest.mark.parametrize("text", ["a c", "a-c", "a c+"])
def test_events_that_no_step_can_take_need_no_key(text: str) -> None:
    hierarchy = Hierarchy(clock="t")
    hierarchy.add(pattern(text, on=("a", "c", "t"), by="k", within=50, emits="m"))
    some = [Event(kind, ts, {} if kind == "t" else {"k": 1}) for ts, kind in enumerate("tatccta")]
    engine = Engine(hierarchy, attenuation=0.5)
    changes = [*engine.feed(some[:4]), *engine.feed(some[4:]), *engine.finish()]
    assert fold(changes) == oracle(hierarchy, some)
    assert fold(changes)
    with pytest.raises(EventError, match="has no 'k'"):
        Engine(hierarchy).feed(Event("a", 1))
