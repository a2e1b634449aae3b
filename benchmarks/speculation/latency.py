"""*Latency*: how long results take on a simulated machine, by attenuation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.racing import Target, progress_bar
from benchmarks.speculation.detectors import Burst, NotBetween
from benchmarks.speculation.measuring import Found, Readings, Size, check_same
from benchmarks.streams import CLOCK, cut, keyed_stream, phone_streams
from betimes import Change, Engine, Event, EventBatch, Hierarchy, fold


class Machine:
    """A simulated machine: idle until events come, then busy for a fixed time for each."""

    def __init__(self, cost: float) -> None:
        self.now = 0.0
        self._cost = cost

    def wait(self, ts: int) -> None:
        """Sleep until the stream reaches `ts`; a machine that lags behind does not wait."""
        self.now = max(self.now, ts / 1e6)

    def runs(self, detector: type[Any]) -> type[Any]:
        """The same detector, but every event that it handles takes time on this machine."""
        machine = self

        class Metered(detector):  # type: ignore[misc]
            def on_event(self, event: Event) -> Any:
                machine.now += machine._cost
                return super().on_event(event)

        Metered.__name__ = detector.__name__
        return Metered


@dataclass(frozen=True)
class Scene:
    """A stream, what to detect in it, and how many seconds the machine needs per event."""

    name: str
    stream: EventBatch
    detector: type[Any]
    options: dict[str, Any]
    clock: str
    batch: int
    cost: float


def scenes(size: Size) -> list[Scene]:
    """The stream of `benchmarks.ordering`, and the recordings of phones if they exist.

    In perfect order, the machine could handle 5 times the stream's rate: more than enough at first,
    but not for any amount of replay.
    """
    stream = keyed_stream(size.events)
    options = {"on": ("ball", "near", "not_near", "hit"), "emits": "touch", "by": "key"}
    found = [Scene("sensors", stream, NotBetween, options, CLOCK, 100, 20e-6)]
    for name, phones in phone_streams():
        cost = 0.2 * float(phones.ts.max() - phones.ts.min()) / 1e6 / len(phones)
        burst = {"on": "message", "emits": "burst"}
        found.append(Scene(f"phones {name}", phones, Burst, burst, "message", 10, cost))
    return found


def run_scene(scene: Scene, attenuation: float | str) -> tuple[float, Found, Engine]:
    """Mean latency in seconds, the final result, and the engine after the run."""
    machine = Machine(scene.cost)
    machine.wait(int(scene.stream.ts[0]))
    hierarchy = Hierarchy(clock=scene.clock)
    hierarchy.add(machine.runs(scene.detector), **scene.options)
    engine = Engine(hierarchy, attenuation=attenuation, time=lambda: machine.now)
    changes: list[Change] = []
    for batch in cut(scene.stream, scene.batch):
        machine.wait(int(batch.ts.max()))
        changes += engine.feed(batch)
    changes += engine.finish()
    return mean_latency(changes), fold(changes), engine


def mean_latency(changes: Sequence[Change]) -> float:
    """Over the outputs of the final result; if one was made again, the last time counts."""
    stand: dict[str, int] = {}
    for change in changes:
        if change.change_type == "insert":
            stand[change.match_id] = change.detected_at - change.ts
        elif change.change_type == "delete":
            del stand[change.match_id]
    return float(np.mean(list(stand.values()))) / 1e6


def measure_latency(size: Size) -> tuple[Readings, list[Target]]:
    readings: Readings = {}
    targets = []
    settings: tuple[float | str, ...] = ("adaptive", 0.3, 0.0)
    places = scenes(size)
    with progress_bar() as bar:
        task = bar.add_task("Latency", total=len(places) * (1 + len(settings)))
        for scene in places:
            title = f"Mean latency in stream time: {scene.name}"
            buffering, expected, _ = run_scene(scene, 1.0)
            bar.advance(task)
            rows = readings[title] = {
                "events, results": f"{len(scene.stream):,}, {expected.total():,}",
                "buffering (attenuation 1)": f"{1000 * buffering:.1f} ms",
            }
            for setting in settings:
                latency, found, engine = run_scene(scene, setting)
                check_same(f"{scene.name} at attenuation {setting}", found, expected)
                saved = 1 - latency / buffering
                rows[f"attenuation {setting}"] = f"{1000 * latency:.1f} ms, {saved:.0%} lower"
                if setting == "adaptive":
                    rows["adaptive at the end"] = _ended(engine)
                    name = f"latency, {scene.name}, adaptive: share saved"
                    targets.append(Target(name, 0.4, saved))
                bar.advance(task)
    return readings, targets


def _ended(engine: Engine) -> str:
    (stats,) = engine.stats.values()
    return f"attenuation {stats.attenuation:.2f}, busy factor {stats.busy_factor:.2f}"
