"""How engines, their options, answers and readings print: short, with times as durations."""

from __future__ import annotations

import re

from betimes import ChangeBatch, Engine, EngineOptions, Event, Hierarchy, Zone, calibrate, pattern

STREAM = [
    Event("A", 1_000),
    Event("B", 4_000),
    Event("A", 9_000),
    Event("B", 5_500),
    Event("A", 20_000),
    Event("A", 30_000),
]


def hierarchy() -> Hierarchy:
    seen = Hierarchy(clock="A")
    seen.add(pattern("A B", within="1s", emits="pair"))
    seen.add(lambda event: Event("echo", event.ts), on="B", emits="echo", name="echo")
    return seen


def pairs() -> Hierarchy:
    one = Hierarchy(clock="A")
    one.add(pattern("A B", within="1s", emits="pair"))
    return one


def test_a_hierarchy_prints_its_levels() -> None:
    assert repr(hierarchy()) == (
        "Hierarchy:\nlevel 0  A, B\nlevel 1  pair: A, B -> pair\nlevel 1  echo: B -> echo"
    )
    assert repr(Hierarchy()) == "Hierarchy without detectors"


def test_an_engine_prints_its_state() -> None:
    engine = Engine(pairs(), attenuation=0.5)
    assert repr(engine) == "Engine(pair; open, 0 changes, attenuation 0.5)"
    engine.feed(STREAM)
    engine.finish()
    assert re.fullmatch(r"Engine\(pair; ended, \d changes?, attenuation 0.5\)", repr(engine))


def test_options_print_what_differs_from_the_defaults() -> None:
    assert repr(EngineOptions()) == "EngineOptions()"
    given = EngineOptions(late="side", retention="2s", max_skew=None, snapshots=100, by="k")
    assert repr(given) == (
        "EngineOptions(max_skew='off', late='side', retention='2 s', "
        "snapshots=EveryEvents(n=100), by='k')"
    )
    assert "zone=Zone(low=0.5" in repr(EngineOptions(zone=Zone(low=0.5)))


def test_options_print_as_they_could_be_written() -> None:
    for given in (
        EngineOptions(slack="150ms", max_skew="90min", late="drop"),
        EngineOptions(attenuation=0.25, margin=1.5, order="key", by="k", retention=1),
    ):
        assert eval(repr(given), {"EngineOptions": EngineOptions}) == given


def test_readings_print_times_as_durations() -> None:
    engine = Engine(pairs(), attenuation=0.5)
    engine.feed(STREAM)
    printed = repr(engine.stats["pair"])
    assert printed.startswith("DetectorStats(detector='pair', level=1, clock=30000, slack=14.5 ms,")
    assert re.search(r"latency_provisional=[\d.]+ ms, latency_final=[\d.]+ ms", printed)
    assert re.search(r"busy=[\d.]+ (us|ms|s), busy_share=[\d.]+, busy_factor=[\d.]+\)", printed)
    assert "latency_final=None" in repr(Engine(pairs()).stats["pair"])


def test_changes_print_what_they_are() -> None:
    engine = Engine(hierarchy(), attenuation=0)
    changes = ChangeBatch([*engine.feed(STREAM), *engine.finish()])
    inserts = sum(change.change_type == "insert" for change in changes)
    assert repr(changes).startswith(f"ChangeBatch({len(changes)} changes: {inserts} insert")
    assert repr(changes[:1]) == "ChangeBatch(1 change: 1 insert)"
    assert repr(changes[:0]) == "ChangeBatch(empty)"
    assert re.match(
        r"Change\(change_type='insert', status='\w+', match_id='\w+', seq=1, type='\w+', "
        r"ts=\d+, detected_at=\d+, slack=(0|[\d.]+ ms), payload=\{",
        repr(changes[0]),
    )


def test_a_calibration_prints_how_long_detectors_wait() -> None:
    found = calibrate(pairs(), STREAM)
    assert re.fullmatch(r"Calibration\(slack: pair 14\.5 ms; id [0-9a-f]{8}\)", repr(found))
    many = Hierarchy(clock="A")
    for number in range(7):
        many.add(pattern("A B", within=f"{number + 1}s", emits=f"pair{number}"))
    printed = repr(calibrate(many, STREAM))
    assert "pair4 14.5 ms, ...; id" in printed
    assert "pair5" not in printed
