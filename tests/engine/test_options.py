"""Options as a value, and identities: what a checkpoint rests on, and how differences are told."""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes import (
    BetimesError,
    CheckpointError,
    Engine,
    EngineOptions,
    Event,
    Hierarchy,
    HierarchyError,
    OptionError,
    SlackPolicy,
    StreamEndedError,
    begin,
    pattern,
)
from betimes.engine.options import OPTIONS
from betimes.model.codec import dumps
from tests.engine.material import Count, tick


def counting(detector: Any = None, **wiring: Any) -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(detector or Count("x"), **{"on": "A", "emits": "x", "name": "counts", **wiring})
    return hierarchy


def looking_for(text: str, **options: Any) -> Hierarchy:
    hierarchy = Hierarchy(clock="*")
    hierarchy.add(pattern(text, **{"emits": "abandoned", "within": "30min", **options}))
    return hierarchy


# Options


def test_options_are_frozen_and_equal_if_they_say_the_same() -> None:
    one = EngineOptions.of(retention="0.032 GB", max_skew="60min", snapshots="adaptive")
    assert one == EngineOptions()
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.late = "drop"  # type: ignore[misc]


def test_one_word_switches_the_check_of_clock_events_off_everywhere() -> None:
    off = EngineOptions.of(max_skew="off")
    assert off == EngineOptions.of(max_skew=None) != EngineOptions()
    assert eval(repr(off)) == off
    assert Engine(counting(), off).options == off


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"atenuation": 0.5}, "unknown option 'atenuation'; did you mean 'attenuation'"),
        ({"checkpoints": 5}, "unknown option 'checkpoints'; it is now 'snapshots'"),
        ({"late": "repare"}, "got late='repare'; did you mean 'repair'"),
        ({"attenuation": True}, "attenuation to be 'adaptive' or a number"),
        ({"attenuation": 1.5}, "got attenuation=1.5"),
        ({"order": "key"}, "'key' together with by="),
        ({"retention": "soon"}, "retention to be a duration"),
        ({"snapshots": 0}, "got snapshots=0"),
        ({"slack": "quantil"}, "slack to be one of"),
        ({"retraction": "some"}, "retraction to be one of"),
    ],
)
def test_a_wrong_option_is_named_wherever_it_is_given(wrong: dict[str, Any], message: str) -> None:
    for take in (EngineOptions.of, functools.partial(Engine, counting())):
        with pytest.raises(OptionError, match=message):
            take(**wrong)


def test_final_results_want_patience_and_no_repairs() -> None:
    options = EngineOptions.of(results="final")
    assert (options.late, options.attenuation) == ("side", 1.0)
    assert EngineOptions.of({"late": "drop"}, results="final").late == "drop"
    with pytest.raises(OptionError, match="never taken back"):
        EngineOptions.of({"late": "repair"}, results="final")


def test_the_signature_of_an_engine_lists_every_option() -> None:
    assert set(OPTIONS) < set(inspect.signature(Engine).parameters)
    documented = inspect.getdoc(Engine)
    assert documented is not None
    assert all(name in documented for name in OPTIONS)


def test_a_fixed_slack_is_a_beginning_above_level_one() -> None:
    fixed = SlackPolicy.parse("150ms")
    assert fixed.at_level(1) == fixed
    assert (fixed.at_level(2).min, fixed.at_level(2).label) == (150_000, "largest")
    assert SlackPolicy.parse(max_slack="1s").at_level(3).max == 3_000_000


# Identity


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (
            looking_for("A !B C"),
            looking_for("A !B C", within="20min"),
            "detector 'abandoned': within was 30 min, is 20 min",
        ),
        (looking_for("A !B C"), looking_for("A C B"), "detector 'abandoned': pattern was "),
        (looking_for("A B"), looking_for("A B", skip="none"), "skip was past_last, is none"),
        (looking_for("A B"), looking_for("A B", where="v > 1"), "where was not given, is v > 1"),
        (looking_for("A B"), looking_for("A B", select={"v": "A.v"}), "is {'v': 'A.v'}"),
        (looking_for("A B"), looking_for("A B", by="k"), "by was nothing, is k"),
        (counting(Count("x", 2)), counting(Count("x", 3)), "'counts': every was 2, is 3"),
        (counting(lambda: Count("x", 2)), counting(lambda: Count("x", 3)), "every was 2, is 3"),
        (
            counting(functools.partial(Count, "x", every=2)),
            counting(functools.partial(Count, "x", every=3)),
            "every was 2, is 3",
        ),
        (counting(by="k"), counting(), "'counts': by was k, is nothing"),
        (counting(), counting(name="other"), "detector 'counts' is gone"),
        (counting(), counting(name="other"), "detector 'other' is new"),
    ],
)
def test_a_difference_is_told_as_a_person_would(was: Hierarchy, now: Hierarchy, told: str) -> None:
    assert was.identity() != now.identity()
    assert was.identity().digest != now.identity().digest
    assert told in "\n".join(now.identity().differences(was.identity()))
    with pytest.raises(CheckpointError) as refusal:
        Engine(now).restore(Engine(was).checkpoint())
    assert told in str(refusal.value)


def test_every_part_of_a_built_pattern_counts() -> None:
    one = begin("a").where("v > 1").times(2, 3).followed_by("b").where("v > 2")
    variants = [
        one,
        begin("a").where("v > 1").times(2, 3).greedy().followed_by("b").where("v > 2"),
        begin("a").where("v > 1").times(2, 3).consecutive().followed_by("b").where("v > 2"),
        begin("a").where("v > 1").times(2, 4).followed_by("b").where("v > 2"),
        begin("a").where("v > 1").times(2, 3).next("b").where("v > 2"),
        begin("a").where("v > 1").times(2, 3).followed_by("b").where("v > 3"),
    ]
    assert len({str(each.facts()) for each in variants}) == len(variants)


class Slotted:
    __slots__ = ("v",)

    def __init__(self, v: Any) -> None:
        self.v = v

    def on_event(self, event: Event) -> None: ...


class Held:
    def __init__(self, v: Any) -> None:
        self.v = v

    def on_event(self, event: Event) -> None: ...


def closing_over(v: Any) -> Any:
    return lambda event: Event("x", event.ts, {"v": v})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Slotted(1), Slotted(2)),
        (Held("1.5"), Held(1.5)),
        (Held(None), Held("null")),
        (Held(float("inf")), Held(-float("inf"))),
        (Held((1,)), Held([1])),
        (Held(1j), Held(2j)),
        (Held(Held(1)), Held(Held(2))),
        (Held(np.array([1.0, np.nan])), Held(np.array([1.0, np.inf]))),
        (Held(Path("a")), Held("a")),
        (closing_over(1), closing_over(2)),
        (Held(1).on_event, Held(2).on_event),
    ],
)
def test_detectors_with_other_options_differ(one: Any, other: Any) -> None:
    assert counting(one).identity() != counting(other).identity()
    assert counting(one).identity() == counting(one).identity()


def test_the_order_of_equal_detectors_counts_and_that_of_names_does_not() -> None:
    """Between equal times, the detector that was added first comes first."""
    one, other = Hierarchy(clock=("A", "B")), Hierarchy(clock=("B", "A"))
    for hierarchy, names in ((one, "xy"), (other, "yx")):
        for name in names:
            hierarchy.add(Count(name), on=("A", "B"), emits=name, name=name)
    (line,) = other.identity().differences(one.identity())
    assert line == "the hierarchy: order was x, y, is y, x"
    for first, second in ((("A", "B"), ("A, B",)), ("nothing", None)):
        wired = [
            {"by": by} if by is None or by == "nothing" else {"on": by} for by in (first, second)
        ]
        ids = [counting(**wiring).identity() for wiring in wired]
        assert ids[0] != ids[1]


def test_an_identity_is_the_same_in_every_process() -> None:
    script = (
        "from tests.engine.test_options import Held, closing_over, counting;"
        "print(counting(Held({'a', 'b', 'c'})).identity().digest,"
        "counting(closing_over({'x', 'y', 'z'})).identity().digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(found) == 1


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ({"late": "side"}, {"late": "drop"}, "options: late was side, is drop"),
        ({"slack": "100ms"}, {"slack": "90ms"}, "slack was 100 ms, is 90 ms"),
        ({"by": "k"}, {"by": "k", "order": "key"}, "order was shared, is key"),
        ({"retention": "1s"}, {"retention": 1_000_001}, "retention was 1 s, is 1.000001 s"),
    ],
)
def test_options_that_states_rest_on(was: Any, now: Any, told: str) -> None:
    with pytest.raises(CheckpointError, match=told):
        Engine(counting(), **now).restore(Engine(counting(), **was).checkpoint())


def test_options_that_may_change_with_a_restart() -> None:
    engine = Engine(counting(), attenuation=0.5, retraction="full", snapshots=3, errors="stop")
    engine.feed([tick(ts, k=0) for ts in (1, 5, 3)])
    other = Engine(counting(), attenuation=1.0, retraction="on-demand", snapshots=9, errors="skip")
    other.restore(engine.checkpoint())
    assert other.attenuation == {"counts": 1.0}


def test_keywords_change_options_that_were_given() -> None:
    options = EngineOptions.of(late="side", retention="2s")
    engine = Engine(counting(), options, attenuation=0.5)
    assert engine.options == EngineOptions.of(late="side", retention="2s", attenuation=0.5)


@pytest.mark.parametrize("bit", range(0, 8 * 900, 61))
def test_a_checkpoint_with_a_wrong_bit_is_refused(bit: int) -> None:
    engine = Engine(counting(), attenuation=0.5)
    engine.feed([tick(ts, k=0) for ts in (1000, 5000, 3000)])
    damaged = bytearray(engine.checkpoint())
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CheckpointError, match="damaged"):
        Engine(counting(), attenuation=0.5).restore(bytes(damaged))


def test_an_engine_that_stopped_at_an_error_gives_no_checkpoint() -> None:
    def fails(event: Event) -> None:
        raise ValueError(event.ts)

    engine = Engine(counting(fails), attenuation=0.0, retention=0)
    with pytest.raises(BetimesError):
        engine.feed([tick(ts, k=0) for ts in (1, 5, 9)])
    with pytest.raises(StreamEndedError, match="stopped at an error"):
        engine.checkpoint()


def test_an_old_checkpoint_is_refused_with_what_to_do() -> None:
    with pytest.raises(CheckpointError, match=r"another version .* finish the stream with that"):
        Engine(counting()).restore(dumps({"format": 2}, "the engine"))


# A hierarchy that grows under an engine


def test_a_detector_that_is_added_too_late_is_named() -> None:
    hierarchy = counting()
    engine = Engine(hierarchy)
    saved = engine.checkpoint()
    hierarchy.add(Count("y"), on="A", emits="y", name="another")
    uses: list[Callable[[], Any]] = [
        lambda: engine.feed(tick(1, k=0)),
        engine.finish,
        lambda: engine.advance("1s"),
    ]
    for use in uses:
        with pytest.raises(HierarchyError, match=r"'another' joined the hierarchy after"):
            use()
    with pytest.raises(CheckpointError, match="detector 'another' is new"):
        Engine(hierarchy).restore(saved)
    assert len(Engine(hierarchy).feed([tick(ts, k=0) for ts in range(9)])) > 0


# Attenuation by key


def deletes(changes: Any) -> int:
    return sum(change.change_type == "delete" for change in changes)


def test_the_attenuation_reaches_every_key() -> None:
    """An event that is late by 5 is waited for at 1, and takes something back at 0."""
    warmup = [Event("A", ts, {"k": k}) for ts in (10, 20, 15, 30, 40) for k in (1, 2)]
    late = [[Event("A", ts, {"k": k}) for k in (1, 2)] for ts in (50, 48, 60, 57, 70, 90)]
    found = {}
    for value in (0.0, 1.0):
        engine = Engine(counting(), by="k", order="key", attenuation=0.5)
        changes = [*engine.feed(warmup)]
        engine.set_attenuation(value)
        assert engine.attenuation == {"counts": value}
        assert {each.attenuation for each in engine.stats.values()} == {value}
        changes += [change for batch in late for change in engine.feed(batch)]
        newcomer = engine.feed([Event("A", ts, {"k": 3}) for ts in (10, 20)])
        assert {each.attenuation for each in engine.stats.values()} == {value}
        found[value] = deletes([*changes, *newcomer, *engine.finish()])
    assert found[0.0] > found[1.0]


def test_an_adaptive_engine_by_key_steers_all_keys_by_their_common_load() -> None:
    now = [0.0]

    def time() -> float:
        now[0] += 0.001
        return now[0]

    engine = Engine(counting(), by="k", order="key", time=time)
    for ts in range(300):
        engine.feed([Event("A", ts, {"k": k}) for k in range(3)])
        now[0] += 0.02
    assert engine.attenuation["counts"] < 1.0
    assert {each.attenuation for each in engine.stats.values()} == set(engine.attenuation.values())


def test_only_keys_that_have_come_have_a_time() -> None:
    engine = Engine(counting(), by="k", order="key")
    engine.feed(Event("A", 1, {"k": 1}))
    with pytest.raises(OptionError, match="got key 2, which has none"):
        engine.advance({2: "1s"})
