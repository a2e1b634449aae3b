"""A live loop in this process: take what has arrived, feed it, or wait."""

from __future__ import annotations

import time

from benchmarks.live.course import Course, Moment
from benchmarks.live.schedule import Fiftieth, Idle, Phase, Schedule, hierarchy
from benchmarks.racing import resident_bytes
from betimes import Engine
from betimes.model.change import ChangeBatch

MOST = 5_000
"""Events per batch, at most."""

TICK = 0.02
"""Seconds between two batches, unless there is a whole batch already."""


def engine_of(attenuation: float | str, detector: type[Fiftieth] = Fiftieth) -> Engine:
    """An engine that says which key a result belongs to, as those on Spark do."""
    return Engine(hierarchy(detector), by="key", attenuation=attenuation)


def capacity() -> float:
    """Events per second that attenuation 1 handles without a pause."""
    _capacity(1.0)  # what is compiled, is compiled now
    return _capacity(3.0)


def _capacity(seconds: float) -> float:
    schedule = Schedule([Phase(1e3, 1e5)])
    engine, done = engine_of(1.0), 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        engine.feed(schedule.batch(done, done + MOST))
        done += MOST
    return done / (time.perf_counter() - began)


def run(name: str, schedule: Schedule, attenuation: float | str) -> tuple[Course, set[str]]:
    """Run to the end of the schedule; returns its course, and the results of what was fed."""
    engine = engine_of(attenuation)
    course, standing, done, tick = Course(name), set[str](), 0, 0.0
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < schedule.seconds:
        high = min(schedule.arrived(now), done + MOST)
        if high - done < MOST and now < tick:
            time.sleep(tick - now)
            continue
        tick = now + TICK
        if high == done:
            continue
        changes = engine.feed(schedule.batch(done, high))
        done = high
        now = time.perf_counter() - began
        lag = now - float(schedule.times(done - 1, done)[0])
        value = next(iter(engine.attenuation.values()))
        latency = _fold(changes, standing)
        busy, cpu = engine.busy_factor, time.process_time()
        course.moments.append(Moment(now, done, lag, value, busy, latency, resident_bytes(), cpu))
    _fold(engine.finish(), standing)
    (stats,) = engine.stats.values()
    if stats.handled + stats.late != done:
        raise AssertionError(f"{done:,} events were fed, {stats.handled:,} handled")
    return course, standing


def truth(schedule: Schedule, fed: int) -> set[str]:
    """The results of these events without any hurry."""
    engine, standing = engine_of(1.0, Idle), set[str]()
    for low in range(0, fed, MOST):
        _fold(engine.feed(schedule.batch(low, min(fed, low + MOST))), standing)
    _fold(engine.finish(), standing)
    return standing


def _fold(changes: ChangeBatch, standing: set[str]) -> float | None:
    """Keep book of the results; returns the mean latency of new ones, in seconds."""
    waited = []
    for change in changes:
        if change.change_type == "insert":
            standing.add(change.match_id)
            waited.append(change.detected_at - change.ts)
        elif change.change_type == "delete":
            standing.discard(change.match_id)
    return sum(waited) / len(waited) / 1e6 if waited else None
