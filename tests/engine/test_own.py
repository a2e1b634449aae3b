"""What a detector says for itself: clock, slack, margin, attenuation, retraction, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import (
    Change,
    CheckpointError,
    Engine,
    Event,
    Hierarchy,
    HierarchyError,
    OptionError,
    calibrate,
)
from betimes.model.change import fold
from betimes.testing import oracle
from betimes.testing.strategies import cut, disordered


class Pairs:
    """An `A` and the `B` after it."""

    def __init__(self) -> None:
        self.last: int | None = None

    def on_event(self, event: Event) -> Event | None:
        if event.type == "A":
            self.last = event.ts
        elif self.last is not None:
            return Event("pair", event.ts, {"from": self.last})
        return None


class Triples:
    """A `C` after a pair."""

    def __init__(self) -> None:
        self.pairs = 0

    def on_event(self, event: Event) -> Event | None:
        if event.type == "pair":
            self.pairs += 1
            return None
        return Event("triple", event.ts, {"pairs": self.pairs})


def two(**own: Any) -> Hierarchy:
    """Two detectors on two levels; the first one has settings."""
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(Pairs, on=("A", "B"), emits="pair", name="pairs", **own)
    hierarchy.add(Triples, on=("pair", "C"), emits="triple", name="triples")
    return hierarchy


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "clock": st.sampled_from(["A", "B", ("A", "B")]),
        "slack": st.sampled_from(["largest", "quantile", "decaying"]),
        "margin": st.sampled_from([0.0, 1.0]),
        "attenuation": st.sampled_from([0.0, 0.5, 1.0, "adaptive"]),
        "retraction": st.sampled_from(["full", "on-demand", "auto"]),
        "snapshots": st.sampled_from([1, 7, "adaptive"]),
    },
)


@given(SETTINGS, disordered(types=("A", "B", "C"), max_events=60), st.data())
def test_the_final_result_is_that_of_ordered_input(
    own: dict[str, Any], events: list[Event], data: st.DataObject
) -> None:
    engine = Engine(two(**own), attenuation=data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    changes: list[Change] = []
    for batch in data.draw(cut(events)):
        changes += engine.feed(list(batch))
    changes += engine.finish()
    assert fold(changes) == oracle(two(), events)


STREAM = [
    Event("A", 0), Event("A", 100), Event("B", 40), Event("A", 200), Event("C", 150),
    Event("A", 300), Event("B", 310), Event("A", 400),
]  # fmt: skip


def test_settings_are_those_of_one_detector() -> None:
    engine = Engine(two(slack="50us", attenuation=0.5), slack="80us", attenuation=0.25)
    engine.feed(STREAM)
    stats = engine.stats
    assert (stats["pairs"].slack, stats["pairs"].attenuation) == (50, 0.5)
    assert (stats["triples"].slack, stats["triples"].attenuation) == (160, 0.25)


def test_the_technique_of_retraction_is_that_of_the_detector() -> None:
    engine = Engine(two(retraction="full"), retraction="on-demand")
    engine.feed(STREAM)
    assert engine.stats["pairs"].retraction.startswith("full")
    assert engine.stats["triples"].retraction.startswith("on-demand")


def test_a_detector_may_have_its_own_clock() -> None:
    engine = Engine(two(clock="B"))
    engine.feed([Event("A", 500), Event("B", 100)])
    assert engine.stats["pairs"].clock == 100
    assert engine.stats["triples"].clock == 500


def test_a_clock_type_that_nobody_reads_is_expected() -> None:
    engine = Engine(two(clock="tick"))
    engine.feed([Event("tick", 500), Event("A", 100)])
    assert engine.stats["pairs"].clock == 500
    assert not engine.ignored


def test_set_attenuation_leaves_those_alone_that_have_their_own() -> None:
    engine = Engine(two(attenuation=1), attenuation=0.5)
    engine.set_attenuation(0.0)
    assert engine.attenuation == {"pairs": 1.0, "triples": 0.0}


def test_one_detector_may_be_adaptive_and_another_not() -> None:
    now = 0.0
    engine = Engine(two(attenuation=1.0), time=lambda: now)
    for ts in range(40):
        now += 0.6
        engine.feed(Event("A", ts))
    assert engine.attenuation == {"pairs": 1.0, "triples": 0.0}


def test_adjust_changes_what_a_detector_says() -> None:
    hierarchy = two(slack="50us")
    hierarchy.adjust("triples", slack="20us", attenuation=0)
    hierarchy.adjust("pairs", slack=None, margin=2)
    engine = Engine(hierarchy, slack="30us")
    engine.feed(STREAM)
    assert [engine.stats[name].slack for name in ("pairs", "triples")] == [30, 20], "not 2 x 20"


@dataclass
class EveryThird:
    """A snapshot model that is a dataclass."""

    events: int = 3

    def length(self, *_: Any, **__: Any) -> int:
        return self.events


def test_a_detector_may_have_its_own_snapshot_model() -> None:
    model = EveryThird()
    hierarchy = two(snapshots=model)
    hierarchy.adjust("pairs", attenuation=0)
    assert next(iter(hierarchy)).own.snapshots is model
    engine = Engine(hierarchy)
    assert fold([*engine.feed(STREAM), *engine.finish()]) == oracle(hierarchy, STREAM)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attenuation": 2}, "detector 'pairs': expected attenuation to be .* got attenuation=2"),
        ({"retraction": "ful"}, "detector 'pairs': .*retraction='ful'; did you mean 'full'"),
        ({"slack": "soon"}, "detector 'pairs': .*'soon'"),
        ({"margin": -1}, "detector 'pairs': .*margin"),
        ({"snapshots": 0}, "detector 'pairs': .*snapshots"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        two(**settings)


def test_a_clock_type_that_a_detector_does_not_see_is_refused() -> None:
    with pytest.raises(HierarchyError, match=r"'pairs' has clock=.*does not see 'triple'"):
        Engine(two(clock="triple"))
    declared = Hierarchy(clock="A", inputs=("A", "B"))
    declared.add(Pairs, on=("A", "B"), emits="pair", clock="tick")
    with pytest.raises(HierarchyError, match="does not see 'tick'"):
        Engine(declared)


def test_settings_of_a_detector_that_does_not_exist_are_refused() -> None:
    with pytest.raises(HierarchyError, match=r"got 'pair'; .*did you mean 'pairs'"):
        two().adjust("pair", attenuation=1)
    with pytest.raises(OptionError, match="unknown option 'atenuation'; did you mean"):
        two().adjust("pairs", atenuation=1)


def test_a_checkpoint_knows_them() -> None:
    was = Engine(two(slack="50us", attenuation=0.5, snapshots=3)).checkpoint()
    Engine(two(slack=50, attenuation=0.1, retraction="full")).restore(was)
    with pytest.raises(CheckpointError, match="slack of 'pairs' was 50 us, is 60 us"):
        Engine(two(slack="60us")).restore(was)
    with pytest.raises(CheckpointError, match="'pairs': clock was not given, is B"):
        Engine(two(slack="50us", clock="B")).restore(was)
    kept = Engine(two(slack="quantile"), max_late=0.1).checkpoint()
    with pytest.raises(CheckpointError, match=r"max_late of 'pairs' was 0\.1, is 0\.2"):
        Engine(two(slack="quantile"), max_late=0.2).restore(kept)


def test_calibration_measures_what_detectors_need_whatever_they_say() -> None:
    plain = calibrate(two(), STREAM)
    found = calibrate(two(slack="1us", attenuation=0, margin=3), STREAM)
    assert found.detectors["pairs"].slack == plain.detectors["pairs"].slack > 1
    Engine(two(slack="1us"), calibration=found)
