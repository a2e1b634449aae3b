"""What a windowed operator says about itself, and what its parts count."""

from __future__ import annotations

import random
from typing import Any

import pytest

import betimes as bt
from betimes.host.joining import together
from betimes.testing import oracle
from tests.windows.material import Quiet, Steps


def feed(workers: Any, operator: type = Steps, instances: int = 2) -> bt.Engine:
    made = bt.Hierarchy(clock="A")
    windowed = bt.windowed(
        operator, bt.window(count=4, slide=2), instances=instances, workers=workers
    )
    made.add(windowed, on="A", emits="made", name="tested")
    engine = bt.Engine(made, attenuation=0, snapshots=3)
    chance = random.Random(7)
    events = [bt.Event("A", ts, {"k": 0, "v": ts % 4}) for ts in range(40)]
    for event in sorted(events, key=lambda event: event.ts + chance.randrange(5)):
        engine.feed(event)
    return engine


def test_each_part_counts() -> None:
    parts = feed("inline").stats["tested"].parts
    assert list(parts) == ["splitter", "instance 0", "instance 1", "merger"]
    splitter = parts["splitter"]
    assert splitter["recoveries"] > 0
    assert splitter["OPEN"] == 20
    instances = [parts["instance 0"], parts["instance 1"]]
    assert splitter["EVENT"] == sum(each["events"] for each in instances)
    assert splitter["open"] == sum(each["open"] for each in instances)
    assert all(each["recoveries"] > 0 and each["snapshots"] > 0 for each in instances)


def test_processes_count_the_same() -> None:
    apart, inline = feed("processes").stats["tested"], feed("inline").stats["tested"]
    assert apart.parts == inline.parts


def test_the_merger_counts_what_it_removes() -> None:
    assert feed("inline", Quiet).stats["tested"].parts["merger"]["removed"] > 0


def test_counts_of_several_keys_are_added_up() -> None:
    one = feed("inline").stats["tested"]
    (both,) = together([one, one])
    assert both.parts["splitter"]["OPEN"] == 40


def test_other_detectors_have_no_parts() -> None:
    made = bt.Hierarchy(clock="A")
    made.add(bt.windowed(bt.aggregate(n="count()"), bt.window(time=4)), on="A", emits="n")
    assert bt.Engine(made).stats["n"].parts == {}


@pytest.mark.parametrize(
    ("windowed", "said"),
    [
        (
            bt.windowed(Steps, bt.window(count=3, slide=1), instances=4, schedule="locality"),
            "window: 3 events every 1\nclass: Steps\n"
            "runs: event by event, 4 instances, each in its own process "
            "(on Spark, in its own slot), windows by locality",
        ),
        (
            bt.windowed(Steps, bt.window(open="v == 0", close="v == 3"), snapshots=100),
            "window: from v == 0 to v == 3, at most 100,000 events\nclass: Steps\n"
            "runs: event by event, one instance in this process\nsnapshots: 100",
        ),
        (
            bt.windowed(bt.aggregate(total="sum(v)"), bt.window(time="1min", offset="2s")),
            "window: 1 min every 1 min, shifted by 2 s\ntotal: sum(v)\n"
            "runs: compiled, over columns",
        ),
    ],
)
def test_it_explains_itself(windowed: Any, said: str) -> None:
    assert windowed.explain() == said


@pytest.mark.parametrize("shape", [bt.window(gap=3), bt.window(time=4)], ids=["gap", "time"])
def test_keys_that_have_gone_quiet_are_given_up(shape: Any) -> None:
    made = bt.Hierarchy(clock="A")
    operator = bt.windowed(Steps, shape, instances=2, workers="inline")
    made.add(operator, on="A", emits="made", by="k", name="tested")
    events = [bt.Event("A", ts, {"k": ts // 5, "v": ts % 4}) for ts in range(1000)]
    for low in range(0, 1000, 4):
        events[low : low + 4] = reversed(events[low : low + 4])
    engine = bt.Engine(made, attenuation=0, retention=20)
    changes = [change for event in events[:500] for change in engine.feed(event)]
    saved = engine.checkpoint()
    engine = bt.Engine(made, attenuation=0, retention=20)
    engine.restore(saved)
    changes += [change for event in events[500:] for change in engine.feed(event)]
    assert engine.stats["tested"].parts["splitter"]["keys"] < 12
    assert bt.fold([*changes, *engine.finish()]) == oracle(made, events)
