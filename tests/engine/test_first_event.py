"""A first event that is a mistake, far ahead: it is believed, contradicted, and then repaired."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import LATE, Change, fold
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut
from tests.engine.material import FOREVER, feed_all, flat, share

MISTAKE = 60_000
SKEW = 4_000


def two_levels(clock: str) -> Hierarchy:
    hierarchy = Hierarchy(clock=clock)
    hierarchy.add(pattern("A C", within=30, emits="m", name="m"))
    hierarchy.add(pattern("A !B", within=20, emits="lost", name="lost"))
    both = pattern("m lost", within=100, emits="both", name="both")
    hierarchy.add(both, on=("m", "lost", "B"))
    return hierarchy


def events(text: str) -> list[Event]:
    """Events by type, time and source."""
    return [Event(word[0], int(word[1:-1]), {"p": word[-1]}) for word in text.split()]


def late(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.type == LATE]


@st.composite
def mistaken(draw: st.DrawFn) -> list[Event]:
    """A stream of several sources in some disorder; its first events may be far ahead."""
    count, sources = draw(st.integers(0, 2)), draw(st.sampled_from(["x", "xy", "xyz"]))
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ABC"), st.integers(0, 15), st.sampled_from([0, 0, 5, 40]),
                st.sampled_from(sources),
            ),
            min_size=4, max_size=20,
        )
    )  # fmt: skip
    stream, now = [], 100
    for number, (type, step, delay, source) in enumerate(rows):
        now += step
        ts = MISTAKE + step if number < count else now - delay
        stream.append(Event(type, ts, {"p": source}))
    return stream


@given(
    mistaken(),
    st.sampled_from(["*", "A"]),
    st.fixed_dictionaries({
        "attenuation": st.sampled_from([0.0, 0.5, 1.0]),
        "slack": st.sampled_from(["largest", "decaying", "quantile"]),
        "source": st.sampled_from(["p", "p", None]),
    }),
    st.data(),
)  # fmt: skip
@share(0.5)
def test_folded_changes_are_the_result_of_perfect_order_and_nothing_is_late(
    stream: list[Event], clock: str, options: dict[str, Any], data: st.DataObject
) -> None:
    hierarchy = two_levels(clock)
    engine = Engine(hierarchy, max_skew=SKEW, retention=FOREVER, **options)
    changes = flat(feed_all(engine, data.draw(cut(stream))))
    assert engine.rejected == 0
    assert late(changes) == []
    assert fold(changes) == oracle(hierarchy, stream)


@pytest.mark.parametrize("clock", ["*", "A"])
@pytest.mark.parametrize("source", ["p", None])
def test_nothing_is_certain_while_there_is_no_clock_again(clock: str, source: str | None) -> None:
    """After three contradictions and before the next clock event, in one batch."""
    hierarchy = two_levels(clock)
    stream = events("A60000z A95z A100z A105z C110z C111z A120z C115z A130z A200z")
    more = events("A210z C215z A300z")
    engine = Engine(hierarchy, source=source, attenuation=0.0, max_skew=SKEW, retention=FOREVER)
    changes = [*engine.feed(stream), *engine.feed(more), *engine.finish()]
    assert late(changes) == []
    assert fold(changes) == oracle(hierarchy, stream + more)


def test_what_stages_below_have_made_does_not_contradict_a_clock_of_sources() -> None:
    hierarchy = two_levels("*")
    stream = events("A60000z A95z B126z B6y C126z C108y A117y A152x")
    engine = Engine(hierarchy, source="p", attenuation=0.0, max_skew=SKEW, retention=FOREVER)
    changes = [*engine.feed(stream)]
    assert {name: stats.clock for name, stats in engine.stats.items()} == dict.fromkeys(
        ("m", "lost", "both"), MISTAKE
    )
    changes += engine.finish()
    assert late(changes) == []
    assert fold(changes) == oracle(hierarchy, stream)


def test_events_are_handled_in_order_also_in_the_batch_that_reveals_the_mistake() -> None:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(pattern("A C", within=30, emits="m"))
    stream = events("A60000z A95z A100z A105z C110z C111z")
    engine = Engine(hierarchy, attenuation=0.0, max_skew=SKEW, retention=FOREVER)
    changes = [*engine.feed(stream), *engine.finish()]
    assert fold(changes) == oracle(hierarchy, stream)
    assert [(change.payload["A.ts"], change.payload["C.ts"]) for change in changes] == [(95, 110)]
