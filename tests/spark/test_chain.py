"""The operators of a chain, without Spark between them: they give what one engine gives."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import betimes as bt
from betimes.configuration import Calibration
from betimes.engine import EngineOptions
from betimes.engine.stages.runner import DetectorFailed
from betimes.host import Columns
from betimes.host.log import Entry, Fed, Head, LoggedHost, Rebase, first_head
from betimes.model.fitting import stored
from betimes.spark.intake.routing import slot_of
from betimes.spark.intake.streams import as_stream
from betimes.spark.job import Job
from betimes.spark.slots.chain import entry_of
from betimes.spark.slots.operator import LIVE, Part
from betimes.spark.telemetry.readings import without_readings
from betimes.windows.chain import ChainError, chained
from tests.spark.material import stream
from tests.spark.windowing import Highs, visit

ROWS = 200


class Stored:
    """What the state store has of one slot, and what lives in its worker."""

    def __init__(self, job: Job, part: Part, slot: int, bases: int) -> None:
        self.live: Any = None
        self.head: Head = first_head(job.identity)
        self._made = partial(LIVE[part], job, slot)
        self._bases = bases
        self._log: list[bytes] = []
        self._volumes: dict[bytes, bytes] = {}

    def feed(self, entry: Entry, *, lost: bool) -> pa.Table:
        """Feed what lives here; if it is lost, what is stored must be enough."""
        if self.live is None or lost:
            self.live = self._made()
            if self._log:
                self.live.rebuild(self._log, self.head.token, self._volumes.get)
        fed: Fed = self.live.feed(self.head, entry)
        self._log.append(stored(entry))
        self.head = fed.head
        base = fed.base
        if base is None and self._bases and fed.head.batches % self._bases == 0:
            base = self.live._rebase(fed.head, fed.head.batches)
            self.head.base = self.live._base[0]
        if base is not None:
            self._rebase(base)
        return fed.changes

    def _rebase(self, base: Rebase) -> None:
        self._log = [base.base]
        self._volumes |= base.new
        self._volumes = {name: self._volumes[name] for name in base.names}

    def ended(self) -> pa.Table:
        live = self._made()
        assert isinstance(live, LoggedHost)
        live.rebuild(self._log, self.head.token, self._volumes.get)
        return live.finish()


class Chain:
    """Three operators, one behind the other, or one alone."""

    def __init__(self, job: Job, *, bases: int = 0, losing: float = 0.0, seed: int = 0) -> None:
        self._job = job
        self._chance, self._losing = random.Random(seed), losing
        self._slots: dict[tuple[Part, int], Stored] = {}
        self._bases = bases

    def _at(self, part: Part, slot: int) -> Stored:
        found = self._slots.get((part, slot))
        if found is None:
            found = self._slots[part, slot] = Stored(self._job, part, slot, self._bases)
        return found

    def _feed(self, part: Part, slot: int, entry: Entry) -> pa.Table:
        lost = self._chance.random() < self._losing
        return self._at(part, slot).feed(entry, lost=lost)

    def feed(self, rows: pa.Table, now: int = 0, idle: int = 0) -> pa.Table:
        """A micro-batch."""
        first: Part = "splitter" if self._job.chained else "alone"
        head = self._at(first, 0).head
        parts = [as_stream(rows)] if len(rows) else []
        entry = Entry(head.batches, head.attenuation, parts, now, idle)
        made = self._feed(first, 0, entry)
        if not self._job.chained:
            return without_readings(made)
        to_merger = []
        for row in made.to_pylist():
            if row["route"] < 0:
                to_merger.append(row["stream"])
                continue
            station = slot_of(row["route"], self._job.partitions)
            told = entry_of(self._at("station", station).head, [row["stream"]])
            answers = self._feed("station", station, told)
            to_merger += answers["stream"].to_pylist()
        self._chance.shuffle(to_merger)
        return without_readings(
            self._feed("merger", 0, entry_of(self._at("merger", 0).head, to_merger))
        )

    def run(self, table: pa.Table, rows: int = ROWS, idle: int = 0) -> list[pa.Table]:
        found = [
            self.feed(table.slice(at, rows), now=at, idle=idle) for at in range(0, len(table), rows)
        ]
        if idle:
            found.append(self.feed(table.slice(0, 0), now=10**6, idle=idle))
        return [*found, self._at("merger" if self._job.chained else "alone", 0).ended()]


def strong(event: bt.Event) -> bt.Event | None:
    """A detector below the windows."""
    return bt.Event("strong", event.ts, event.payload) if event["force"] > 30 else None


def hierarchy(*, workers: Any = "auto", above: Any = "inline") -> bt.Hierarchy:
    found = bt.Hierarchy(clock="ball")
    found.add(strong, on=("near", "hit"), emits="strong", by="key")
    options: dict[str, Any] = {"workers": workers}
    high = bt.windowed(Highs(), bt.window(count=5, slide=2), instances=3, **options)
    found.add(high, on="hit", emits=("high", "climb"), by="key", name="highs")
    visits = bt.windowed(visit, bt.window(gap="6ms"), instances=2, schedule="locality", **options)
    found.add(visits, on=("strong", "near"), emits="visit", name="visits")
    totals = bt.windowed(bt.aggregate(n="count()"), bt.window(count=3), instances=2, workers=above)
    found.add(totals, on="high", emits="highs", by="key", name="above")
    return found


def job(*, streams: bool, detectors: bt.Hierarchy | None = None, **options: Any) -> Job:
    # With `auto`, the order of confirmations depends on measured time.
    wanted = EngineOptions.of({"attenuation": 0.2, "retraction": "on-demand"} | options)
    # In the engine itself, so that both run here.
    found = detectors or hierarchy(workers="auto" if streams else "inline")
    return Job.of(found, Columns("ts", "type", "seq"), wanted, streams=streams)


def test_which_operators_can_be_chained() -> None:
    found = hierarchy(above="auto")
    assert chained(found, EngineOptions()) == {"highs": 3, "visits": 2}
    assert chained(found, EngineOptions(errors="skip")) == {}
    assert chained(found, EngineOptions(by="key", order="key")) == {}
    assert chained(hierarchy(workers="processes"), EngineOptions()) == {}


def test_a_checkpoint_belongs_to_as_many_instances() -> None:
    several = job(streams=True, detectors=hierarchy(above="auto"))
    assert several.partitions == 3
    (line,) = several.identity.differences(job(streams=False).identity)
    assert "the job" in line
    assert "'highs: 3', 'visits: 2'" in line


@pytest.mark.parametrize(("bases", "losing"), [(0, 0.0), (1, 0.6), (2, 0.6)])
def test_a_chain_gives_what_one_engine_gives(bases: int, losing: float) -> None:
    events = stream(800, keys=4, seed=bases + 1)
    expected = Chain(job(streams=False)).run(events)
    found = Chain(job(streams=True), bases=bases, losing=losing, seed=7).run(events)
    assert [table.to_pylist() for table in found] == [table.to_pylist() for table in expected]
    kinds = {(row["type"], row["change_type"]) for table in found for row in table.to_pylist()}
    assert {("visit", "delete"), ("high", "confirm"), ("highs", "confirm")} <= kinds


def test_what_is_known_when_time_passes_and_what_is_forgotten_is_the_same_for_both() -> None:
    events = stream(800, keys=4, seed=11)
    known = Calibration.nothing(hierarchy())
    short: dict[str, Any] = {"retention": "1 kB", "max_skew": "1h", "calibration": known}
    expected = Chain(job(streams=False, **short)).run(events, idle=1)
    chain = Chain(job(streams=True, **short), bases=2, losing=0.5)
    found = chain.run(events, idle=1)
    assert standing(found) == standing(expected)
    decided = chain._at("splitter", 0).live.engine.budget.decided
    assert decided is not None
    assert max(decided) >= 0, "nothing was forgotten for want of memory"


def standing(tables: list[pa.Table]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for table in tables:
        for row in table.to_pylist():
            found[row["match_id"]] += {"insert": 1, "delete": -1}.get(row["change_type"], 0)
    return {match: count for match, count in found.items() if count}


class Fussy:
    """Fails at an event that is far from the one before it."""

    def __init__(self, most: int = 10**9) -> None:
        self.most = most
        self.before: int | None = None

    def on_event(self, event: bt.Event) -> bt.Event:
        if self.before is not None and event.ts - self.before > self.most:
            raise ValueError("too far")
        self.before = event.ts
        return bt.Event("made", event.ts, {"n": event["n"]})


def fussy(most: int, workers: Any) -> bt.Hierarchy:
    found = bt.Hierarchy(clock="A")
    operator = bt.windowed(Fussy(most), bt.window(count=4, slide=2), instances=2, workers=workers)
    found.add(operator, on="A", emits="made", name="fussy")
    return found


def numbered(times: list[int]) -> pa.Table:
    return pa.table({"ts": times, "type": ["A"] * len(times), "n": times, "seq": range(len(times))})


def test_a_failure_that_a_late_event_repairs_leaves_no_trace() -> None:
    times = [t for t in range(0, 400, 10) if t not in (150, 250)]
    times.insert(times.index(160) + 3, 150)
    times.insert(times.index(260) + 5, 250)
    table = numbered(times)
    runs = []
    for streams, workers in ((False, "inline"), (True, "auto")):
        made = job(streams=streams, detectors=fussy(10, workers), attenuation=0)
        runs.append(standing(Chain(made, bases=2, losing=0.5).run(table, 1)))
    assert runs[0] == runs[1]
    assert len(runs[0]) == 40


def test_a_failure_that_stays_stops_the_merger() -> None:
    made = job(
        streams=True, detectors=fussy(10, "auto"), attenuation=0, retention="100us", slack="0us"
    )
    with pytest.raises(DetectorFailed, match=r"'fussy' failed at .*150.*: ValueError: too far"):
        Chain(made).run(numbered([t for t in range(0, 900, 10) if t != 140]), 5)


def test_engines_that_do_not_agree_are_an_error() -> None:
    found = bt.Hierarchy(clock="A")
    chance = random.Random(1)
    free = bt.window(open=lambda _event: chance.random() < 0.5, close="n >= 0")
    operator = bt.windowed(visit, free, instances=2)
    found.add(operator, on="A", emits="made", name="free")
    chain = Chain(job(streams=True, detectors=found, attenuation=0))
    with pytest.raises(ChainError, match="the windows of 'free' were cut in two ways"):
        chain.run(numbered(list(range(60))), 5)
