"""Moves in virtual time: what they gain, how long they pause, and what several nodes are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.placement import Planner, Problem, optimise
from betimes.placement.homes import spread
from betimes.testing import VirtualCluster, scaled_hierarchy, scaled_stream

PHASE, CYCLE = 100, 1.0
"""Seconds: how long subscriptions stay, and how often the planner looks."""


def swinging(phase: int, rng: np.random.Generator) -> Problem:
    """Eight detectors in two groups of four; every other phase, two of each change sides."""
    groups = [(0, 1, 2, 3), (4, 5, 6, 7)] if phase % 2 == 0 else [(0, 1, 6, 7), (4, 5, 2, 3)]
    traffic = np.zeros((8, 8))
    for group in groups:
        for a, b in pairwise(group):
            traffic[a, b] = 100
    traffic[groups[0][3], groups[1][0]] = 10
    noisy = traffic * np.exp(rng.normal(0, 0.1, traffic.shape))
    return Problem(noisy, np.ones((2, 2)), np.ones(8), np.full(2, 5))


def show_swing() -> None:
    """300 s of the paper's section 5.3: events per second that cross."""
    rng, planner = np.random.default_rng(1), Planner(moving=20.0, seed=1, iterations=20)
    static = hosts = np.array([0, 1, 0, 1, 1, 0, 1, 0])
    sums, recovered, moves = np.zeros(3), [], 0
    seconds, waiting = 3 * PHASE, None
    for now in range(seconds):
        measured = swinging(now // PHASE, rng)
        best = optimise(measured, seconds=None, iterations=5)
        sums += [measured.cut(static), measured.cut(hosts), measured.cut(best)]
        if now % PHASE == 0:
            waiting = now
        if waiting is not None and measured.cut(hosts) <= measured.cut(best) * 1.05:
            recovered.append(now - waiting)
            waiting = None
        plan = planner.plan(measured, hosts, now=now * CYCLE)
        hosts, moves = plan.hosts, moves + len(plan.moves)
    names = ("static", "planned", "ideal")
    for name, total in zip(names, sums, strict=True):
        print(f"{name}: {total / seconds:.1f} events per second, {total / sums[2]:.2f} x ideal")
    print(f"{moves} moves; s until within 5 % of ideal, by phase: {recovered}")


@dataclass
class Heavy:
    """A detector whose state has so many bytes."""

    size: int
    state: bytes = b""
    n: int = field(default=0)

    def on_event(self, event: Event) -> Event:
        self.state = self.state or bytes(self.size)
        self.n += 1
        return Event("out", event.ts, {"n": self.n})


def longest_gap(size: int, *, at_once: bool, seed: int) -> float:
    """Milliseconds between two outputs of a detector that moves; 1 GBit/s, an event per ms."""
    heavy = Hierarchy(clock="in")
    heavy.add(Heavy(size), on="in", emits="out", name="heavy")
    nodes = VirtualCluster(
        ["a", "b"], placement={"heavy": "a"}, seed=seed, latency=200, jitter=100,
        bandwidth=125e6, work=50, log_bytes=10**12,
    )  # fmt: skip
    engine = Engine(heavy, workers=nodes, attenuation=0.0, snapshots=1000, retention=0)
    length = 600 + round(size / 125e6 * 3_000)
    for n in range(length):
        nodes.run(n * 1000)
        engine.feed([Event("in", n)])
        if n == 300:
            nodes.homes.move("heavy", "b", at_once=at_once)
    engine.finish()
    heard = sorted(when for (_, number), when in nodes.spoken.items() if number < length)
    assert nodes.homes.now["heavy"] == ("b",), "it has not moved"
    return float(np.diff(heard[250:]).max()) / 1000


def show_moves() -> None:
    """The longest gap between outputs, by the size of the state."""
    print("| state | at once | side by side |")
    print("|---|---:|---:|")
    for size, runs in ((100_000, 20), (1_000_000, 20), (10_000_000, 5)):
        gaps = [
            [longest_gap(size, at_once=at_once, seed=seed) for seed in range(runs)]
            for at_once in (True, False)
        ]
        cells = [f"{np.median(each):.1f} / {np.max(each):.1f} ms" for each in gaps]
        print(f"| {size / 1e6:g} MB | {' | '.join(cells)} |", flush=True)


def show_nodes() -> None:
    """The scaled hierarchy: detectors take 20 us per event; how long the stream takes.

    Detectors live where they do once it is known how much each of them has to do.
    """
    hierarchy, stream = scaled_hierarchy(), scaled_stream(20.0, seed=1)
    batches = [stream[at : at + 100] for at in range(0, len(stream), 100)]
    names, load, first = [node.name for node in hierarchy], None, 0
    print("| nodes | virtual s | x one node | busiest node |")
    print("|---:|---:|---:|---:|")
    for count in (1, 2, 4, 8):
        planned = spread(hierarchy, count, load=load)
        nodes = VirtualCluster(
            count, seed=1, latency=200, jitter=50, work=20, log_bytes=10**12, ahead=8,
            placement={name: f"node {n}" for name, n in zip(names, planned, strict=True)},
        )  # fmt: skip
        engine = Engine(hierarchy, workers=nodes, attenuation=0.0)
        for batch in batches:
            engine.feed(batch)
        engine.finish()
        first, load = first or nodes.now, load or dict(nodes.busy)
        busiest = max(account.busy for account in nodes.world.accounts.values()) / nodes.now
        print(
            f"| {count} | {nodes.now / 1e6:.2f} | {first / nodes.now:.2f} | {busiest:.0%} |",
            flush=True,
        )
