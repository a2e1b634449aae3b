"""Random patterns and streams, small enough to try everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

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


types = st.sampled_from(["a", "b", "c", "ab", "bc"])
TRAITS = [
    "plain",
    "loops",
    "optional loops",
    "optional windows",
    "loops windows",
    "negated",
    "negated optional",
    "negated loops",
    "negated optional windows",
    "negated greedy",
    "greedy optional",
    "until",
    "until greedy",
    "looks_back loops optional",
    "negated optional loops windows greedy until looks_back",
]
"""What patterns may have, little at a time: everything at once hides itself, as nothing matches."""


@st.composite
def steps(draw: st.DrawFn, op: Op, name: str, traits: str) -> Step:
    def has(trait: str) -> bool:
        return trait in traits and draw(st.booleans())

    looks_back = op != "begin" and has("looks_back")
    step = Step(op, name, ((name, Fits(draw(types), looks_back)),))
    if step.negated:
        return step
    if has("loops") or has("greedy") or has("until"):
        least = draw(st.sampled_from([1, 1, 2]))
        more = draw(st.sampled_from([1, 2, 0, None] if "until" not in traits else [None, None, 1]))
        most = None if more is None else least + more
        greedy = most != 1 and has("greedy")
        until = Fits(draw(types)) if most is None and "until" in traits else None
        inner = draw(st.sampled_from(INNERS))
        step = replace(step, least=least, most=most, inner=inner, greedy=greedy, until=until)
    within = draw(st.integers(1, 4)) if has("windows") else None
    return replace(step, optional=has("optional"), within=within)


@st.composite
def specs(draw: st.DrawFn, traits: str = TRAITS[-1], *, skips: Sequence[str] = SKIPS) -> Spec:
    """Patterns of the class that `brute` defines."""
    row = [draw(steps("begin", "s0", traits))]
    for number in range(1, draw(st.sampled_from([2, 3, 3, 4, 5]))):
        # A prohibition after an optional step is refused.
        negated = "negated" in traits and not row[-1].optional and draw(st.booleans())
        op = draw(st.sampled_from(OPS[3:] if negated else OPS[:3]))
        row.append(draw(steps(op, f"s{number}", traits)))
    skip = draw(st.sampled_from(skips))
    # It takes a window to wait for nothing, or for the end of runs that hold a match back.
    needed = skip != "none" or row[-1].op == "not_followed_by"
    within = draw(st.integers(4, 8) if needed else st.none() | st.integers(4, 8))
    spec = Spec(tuple(row), within, skip)
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
def grouped(draw: st.DrawFn, traits: str) -> Spec:
    """Patterns with groups, also within groups; nothing negated, nothing greedy."""
    return Spec(draw(sequences(0, "s", traits)), draw(st.none() | st.integers(4, 8)))


@st.composite
def sequences(draw: st.DrawFn, depth: int, prefix: str, traits: str) -> tuple[Step, ...]:
    row = []
    for at in range(draw(st.integers(1, 3 - depth))):
        op: Op = "begin" if at == 0 else draw(st.sampled_from(OPS[:3]))
        name = f"{prefix}{at}"
        step = draw(steps(op, name, traits))
        if depth < 2 and draw(st.booleans()):
            group = draw(sequences(depth + 1, name, traits))
            assume(not all(map(skippable, group)))
            step = replace(step, name=f"({name})", takes=(), group=group, within=None)
        row.append(step)
    return tuple(row)


@st.composite
def streams(draw: st.DrawFn, *, longest: int = 6) -> list[Event]:
    length = draw(st.sampled_from([longest, longest - 1, 3, 0]))
    types = draw(st.lists(st.sampled_from("abcabcd"), min_size=length, max_size=length))
    gaps = draw(st.lists(st.sampled_from([1, 0, 2]), min_size=length, max_size=length))
    ts = accumulate(gaps)
    return [Event(type, at, {"n": n}) for n, (type, at) in enumerate(zip(types, ts, strict=True))]
