"""Random runs of engines against the oracle: `python -m tests.engine.random_runs --runs 50000`.

The property tests shrink what they find, and pay for that with time. This only looks: each run is
made from its number, with detectors of every tactic on up to three levels, keys of all kinds, one
clock or one per source, blocks, restarts, deadlines, a changing attenuation, and a detector that
fails whenever it sees the wrong order. In the end the result must be the oracle's, no row may
contradict an earlier one, and the statistics must add up. To repeat one run: `--first N --runs 1`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from betimes.engine import Engine, Hierarchy
from betimes.model import Event, EventBatch
from betimes.model.change import Change, fold
from betimes.patterns import pattern
from betimes.testing.oracle import oracle
from betimes.transactions import transactional
from betimes.windows import windowed
from tests.engine.cases import small_sizes, transact
from tests.engine.material import FOREVER, Count, NotBetween, Twins, flat, odd
from tests.engine.progress import shown
from tests.engine.protocol import through_bytes
from tests.engine.slicing import EveryNth, Own, Plain
from tests.engine.test_contract import check_lives
from tests.engine.test_time import Late, Unanswered
from tests.windows.material import WINDOWS, Quiet, Steps

TYPES: tuple[str, ...] = ("A", "B", "C")
KEYS: dict[str, list[Any]] = {
    "numbers": [0, 1, 2],
    "text": ["a", "b", "ü"],
    "decimals": [0.5, -1.5, 2.25],
    "truths": [True, False],
    "mixed": [1, "1", 2.5, None],
    "tuples": [("a", 1), ("a", 2), ()],
    "bytes": [b"", b"\x00", b"a"],
}
NAMES: list[list[Any]] = [["x", "y", "z"], [0, 1, 7], ["x", 3]]


@dataclass
class InOrder:
    """Numbers the events of its key, and fails at one that has another number."""

    out: str
    last: int = -1

    def on_event(self, event: Event) -> Event | None:
        if event["n"] != self.last + 1:
            raise ValueError(f"expected {self.last + 1}, got {event['n']}")
        self.last = event["n"]
        return Event(self.out, event.ts, {"k": event["k"], "v": self.last % 4})


@dataclass
class Run:
    """What one number stands for."""

    rng: random.Random
    hierarchy: Hierarchy
    stream: list[Event]
    options: dict[str, Any]
    advance: bool
    plain: bool
    """Whether events can become a table."""
    sources: list[Any] = field(default_factory=list)

    def expected(self) -> Counter[tuple[str, int, str]]:
        """The truth."""
        options = {name: self.options[name] for name in ("by", "order") if name in self.options}
        return oracle(self.hierarchy, self.stream, advance=self.advance, **options)


def run_of(number: int, seed: int) -> Run:
    """The run with this number."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.choice([*["numbers"] * 4, *KEYS])
    options = _options(rng)
    sources = rng.choice(NAMES) if rng.random() < 0.35 else []
    stream = _stream(rng, KEYS[kind], sources)
    if sources:
        options |= {"source": "p", "quiet": rng.choice([20, "10min"])}
    hierarchy = _hierarchy(rng, numeric=kind == "numbers", keyed="by" in options)
    plain = kind not in ("mixed", "tuples") and sources != NAMES[-1]
    return Run(rng, hierarchy, stream, options, rng.random() < 0.7, plain, sources)


def _options(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "attenuation": rng.choice([1.0, 0.5, 0.3, 0.0]),
        "retraction": rng.choice(["full", "on-demand", "auto"]),
        "snapshots": rng.choice([1, 3, 1000, "speculative", "speculative:5", "adaptive"]),
        "errors": rng.choice(["stop", "skip"]),
        "slack": rng.choice(["largest", "largest", 3, 60, "decaying", "quantile"]),
        "retention": rng.choice([FOREVER, "32 MB"]),
        "time": lambda: 0.0,
        "carry": rng.choice([None, None, None, through_bytes]),
    }
    return options | rng.choice([{}, {}, {"by": "k"}, {"by": "k", "order": "key"}])


def _stream(rng: random.Random, keys: Sequence[Any], sources: Sequence[Any]) -> list[Event]:
    """Events in the order of arrival, with their numbers in the order of time."""
    parts = [_disordered(rng, keys) for _ in sources or [None]]
    lags = [rng.choice([0, 0, 40, 300]) for _ in parts]
    arrived: list[tuple[str, int, dict[str, Any]]] = []
    while any(parts):
        n = rng.choice([n for n, part in enumerate(parts) if part])
        count = rng.choice([1, 1, 2, 100])
        for type, ts, payload in parts[n][:count]:
            more = {"p": sources[n]} if sources else {}
            arrived.append((type, ts + lags[n], payload | more))
        parts[n] = parts[n][count:]
    numbers: Counter[Any] = Counter()
    for _, _, payload in sorted(arrived, key=lambda event: event[1]):
        key = payload["k"]
        payload["n"] = numbers[key]
        numbers[key] += 1
    return [Event(*event) for event in arrived]


def _disordered(rng: random.Random, keys: Sequence[Any]) -> list[tuple[str, int, dict[str, Any]]]:
    ts, arriving = 0, []
    longest, gap = rng.choice([0, 10, 25, 60]), rng.choice([1, 3, 5])
    for _ in range(rng.choice([3, 10, 25, 50])):
        ts += rng.randint(0, gap)
        delay = rng.choice([0, 0, rng.randint(0, longest // 4), rng.randint(0, longest)])
        payload = {"k": rng.choice(keys), "v": rng.randint(0, 3)}
        arriving.append((ts + delay, (rng.choice(TYPES), ts, payload)))
    return [event for _, event in sorted(arriving, key=lambda pair: pair[0])]


def _hierarchy(rng: random.Random, *, numeric: bool, keyed: bool) -> Hierarchy:
    """One or two detectors on the input, and perhaps others that read what those make."""
    made = Hierarchy(clock=rng.choice(["A", ("A", "B"), "*", None]))
    below: list[str] = []
    for level in range(rng.choice([1, 1, 2, 3])):
        these: list[str] = []
        for number in range(rng.choice([1, 1, 2])):
            out, on = f"L{level}_{number}", TYPES
            if below:
                on = (*rng.sample(TYPES, rng.randint(0, 2)), rng.choice(below))
            inputs = set(on) <= set(TYPES)
            these += _add(rng, made, out, on, numeric=numeric, inputs=inputs, keyed=keyed)
        below = these or below
    return made


def _add(
    rng: random.Random, made: Hierarchy, out: str, on: tuple[str, ...], *, numeric: bool,
    inputs: bool, keyed: bool,
) -> list[str]:  # fmt: skip
    """Add a detector of a random kind; return what it makes that others can read."""
    by = rng.choice([None, "k"])
    first, last = on[0], on[-1]
    kinds: dict[str, Callable[[], Any]] = {
        "count": lambda: Count(out, rng.randint(1, 3), rng.choice([0, 0, 2, 5])),
        "not between": lambda: NotBetween(out, first, last, rng.choice(on)),
        "no state": lambda: odd(out),
        "unanswered": lambda: Unanswered(rng.choice([4, 20])),
        "late": Late,
        "compiled": lambda: _pattern(rng, ["{0} {1}", "{0} !{1} {2}", "{0}-{1}"], on, out),
        "absence": lambda: _pattern(rng, ["{0} !{1}", "{0} !{0}"], on, out),
        "general": lambda: _pattern(rng, ["{0} {1}+ {2}", "{0}+ !{1}"], on, out),
    }
    if inputs:
        kinds |= {
            "in order": lambda: InOrder(out),
            "own snapshots": lambda: Own(out),
            "window": lambda: windowed(
                rng.choice([Steps, Quiet]), WINDOWS[rng.choice(list(WINDOWS))],
                instances=rng.randint(1, 3), workers="inline",
            ),
        }  # fmt: skip
        if numeric:
            kinds |= {
                "every nth": lambda: EveryNth(out, rng.randint(1, 3), rng.choice([0, 0, 2])),
                "twins": lambda: Twins(out),
                "plain": lambda: Plain(out),
                "transactions": lambda: transactional(transact),
            }
    kind = rng.choice(list(kinds))
    if kind in ("in order", "late") and not keyed:
        by = "k" if kind == "in order" else by
    detector, name = kinds[kind](), f"{kind} {out}"
    if kind in ("compiled", "absence", "general"):
        made.add(detector, by=by, name=name)
        return [] if kind == "general" else [out]
    emits: dict[str, tuple[str, ...]] = {
        "unanswered": ("answered", "unanswered"), "late": ("tardy",), "plain": (out, f"{out}-"),
        "window": ("made",), "transactions": ("made",),
    }  # fmt: skip
    try:
        made.add(detector, on=on, emits=emits.get(kind, (out,)), by=by, name=name)
    except ValueError as error:  # somebody makes this type already
        if "already" not in str(error):
            raise
        return _add(rng, made, out, on, numeric=numeric, inputs=inputs, keyed=keyed)
    return [out] if kind in ("count", "not between", "no state", "in order", "every nth") else []


def _pattern(rng: random.Random, forms: Sequence[str], on: tuple[str, ...], out: str) -> Any:
    """A pattern of these types, and others if it needs more of them."""
    types = list(dict.fromkeys((*on, *TYPES)))
    text = rng.choice(forms).format(*types)
    select = None if "+" in text else {"k": f"{types[0]}.k"}
    return pattern(text, within=rng.choice([8, 30]), emits=out, select=select)


# One run


def check(run: Run) -> None:
    """Run it; an AssertionError, or whatever the engine raises, says what is wrong."""
    rng, batches = run.rng, list[list[Change]]()

    def make() -> Engine:
        return Engine(run.hierarchy, **run.options)

    engine, fed = make(), 0
    while fed < len(run.stream):
        part = run.stream[fed : fed + rng.choice([1, 1, 1, 3, 10, 1000])]
        fed += len(part)
        if rng.random() < 0.15:
            engine.set_attenuation(rng.choice([1.0, 0.4, 0.0]))
        batches.append(list(engine.feed(_as_fed(run, part), blocks=rng.random() < 0.3)))
        if run.sources and rng.random() < 0.1:
            engine.excuse([rng.choice(run.sources)])
        if rng.random() < 0.2:
            now, saved = engine.attenuation, engine.checkpoint()
            engine = make()
            engine.restore(saved)
            engine.set_attenuation(next(iter(now.values())))
            check_statistics(run, engine, fed)
    batches.append(list(engine.finish(advance=run.advance)))
    found, wanted = fold(flat(batches)), run.expected()
    assert found == wanted, f"too much: {found - wanted}, missing: {wanted - found}"
    check_lives(batches, late="repair")
    check_statistics(run, engine, fed)
    assert not any(stats.errors for stats in engine.stats.values()), "an error was not repaired"
    assert not any(stats.waiting for stats in engine.stats.values())


def _as_fed(run: Run, part: list[Event]) -> Any:
    """Events in one of the forms in which an engine takes them."""
    forms: list[Callable[[], Any]] = [lambda: part, lambda: EventBatch.from_rows(part)]
    if len(part) == 1:
        forms.append(lambda: part[0])
    if run.plain:
        forms.append(lambda: EventBatch.from_rows(part).to_arrow())
    return run.rng.choice(forms)()


def check_statistics(run: Run, engine: Engine, fed: int) -> None:
    """Every input of a detector on the first level was handled, or waits."""
    types = Counter(event.type for event in run.stream[:fed])
    told: Counter[str] = Counter()
    for stats in engine.stats.values():
        told[stats.detector] += stats.handled + stats.late + stats.waiting
        assert not stats.late
    levels = run.hierarchy.levels()
    for node in run.hierarchy:
        if levels[node.name] == 1:
            mine = sum(count for name, count in types.items() if node.takes(name))
            assert told[node.name] == mine, (node.name, told, mine)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many as asked for; the exit code is 1 if any of them went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    wrong, began = 0, time.monotonic()
    numbers = range(asked.first, asked.first + asked.runs)
    with pytest.MonkeyPatch.context() as patch:
        small_sizes(patch)
        for number in shown(numbers, "runs"):
            try:
                check(run_of(number, asked.seed))
            except Exception:  # noqa: BLE001 - whatever it is, it was found
                wrong += 1
                print(f"run {number} of seed {asked.seed}:", *_reason(), sep="\n", flush=True)
    took = time.monotonic() - began
    print(f"{asked.runs:,} runs, {wrong:,} of them wrong, {took:,.0f} s")
    return int(wrong > 0)


def _reason() -> Iterator[str]:
    yield from traceback.format_exc(limit=-4).splitlines()[-12:]


if __name__ == "__main__":
    sys.exit(main())
