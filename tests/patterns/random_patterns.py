"""Random patterns and streams, small enough to try everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from hypothesis import assume
from hypothesis import strategies as st

from betimes.model import Event
from betimes.patterns.steps import Bound, Inner, Op, PatternError, Spec, Step
from betimes.patterns.wellformed import check, skippable

OPS: list[Op] = ["next", "followed_by", "followed_by_any", "not_next", "not_followed_by"]
INNERS: list[Inner] = ["relaxed", "strict", "combinations"]
SKIPS = ["none", "to_next", "past_last", "to_first:s1", "to_last:s0"]


@dataclass(frozen=True)
class Fits:
    """The event is one of these types; if it looks back, an odd number of events is bound."""

    types: str
    looks_back: bool = False

    @property
    def text(self) -> str:
        return f"type in {self.types!r}"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"*"} if self.looks_back else ())

    def holds(self, event: Event, bound: Bound) -> bool:
        odd = sum(len(events) for events in bound.values()) % 2 == 1
        return event.type in self.types and (odd or not self.looks_back)


types = st.sampled_from(["a", "b", "c", "ab", "bc", "abc"])


@st.composite
def steps(draw: st.DrawFn, op: Op, number: int) -> Step:
    looks_back = number > 0 and draw(st.integers(0, 5)) == 0
    name = f"s{number}"
    step = Step(op, name, ((name, Fits(draw(types), looks_back)),))
    within = draw(st.none() | st.none() | st.integers(1, 4))
    if step.negated:
        return step
    least = draw(st.sampled_from([1, 1, 1, 2]))
    more = draw(st.sampled_from([0, 0, 1, 2, None]))
    most = None if more is None else least + more
    until = Fits(draw(types)) if most is None and draw(st.booleans()) else None
    return Step(
        op,
        name,
        step.takes,
        least=least,
        most=most,
        optional=draw(st.sampled_from([False, False, True])),
        greedy=most != 1 and draw(st.sampled_from([False, False, True])),
        inner=draw(st.sampled_from(INNERS)),
        until=until,
        within=within,
    )


@st.composite
def specs(draw: st.DrawFn, *, skips: Sequence[str] = ("none",), longest: int = 4) -> Spec:
    """Patterns of the class that `brute` defines."""
    ops: list[Op] = ["begin", *draw(st.lists(st.sampled_from(OPS), max_size=longest - 1))]
    row = tuple(draw(steps(op, number)) for number, op in enumerate(ops))
    skip = draw(st.sampled_from(skips))
    # With a skip strategy matches wait until earlier runs are over, so they must be some time.
    window = st.integers(2, 8)
    spec = Spec(row, draw(window if skip != "none" else window | st.none()), skip)
    try:
        check(spec)
    except PatternError:
        assume(False)
    assume(is_defined(row))
    return spec


def is_defined(row: Sequence[Step]) -> bool:
    """Whether `brute` says what it means."""
    for at, step in enumerate(row):
        rest = [each for each in row[at + 1 :] if not each.negated]
        hangs = step.op == "not_next" or (step.greedy and step.most != step.least)
        if hangs and rest and all(each.optional for each in rest) and not row[-1].negated:
            return False
    last = [each.op for each in takewhile(lambda each: each.negated, reversed(row))]
    return last[:1] != ["not_followed_by"] or "not_next" not in last


@st.composite
def grouped(draw: st.DrawFn) -> Spec:
    """Patterns with groups, also within groups; nothing negated, nothing greedy."""
    return Spec(draw(sequences(0)), draw(st.none() | st.integers(4, 8)))


@st.composite
def sequences(draw: st.DrawFn, depth: int, prefix: str = "s") -> tuple[Step, ...]:
    row = []
    for at in range(draw(st.integers(1, 3 - depth))):
        op: Op = "begin" if at == 0 else draw(st.sampled_from(OPS[:3]))
        name = f"{prefix}{at}"
        step = replace(draw(steps(op, 0)), greedy=False, until=None)
        if depth < 2 and draw(st.booleans()):
            group = draw(sequences(depth + 1, name))
            assume(not all(map(skippable, group)))
            step = replace(step, name=f"({name})", takes=(), group=group, within=None)
        else:
            step = replace(step, name=name, takes=((name, Fits(draw(types))),))
        row.append(step)
    return tuple(row)


@st.composite
def streams(draw: st.DrawFn, *, longest: int = 6) -> list[Event]:
    ts, events = 0, []
    for type, gap in draw(
        st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([1, 0, 2, 3])), max_size=longest)
    ):
        ts += gap
        events.append(Event(type, ts, {"n": len(events)}))
    return events
