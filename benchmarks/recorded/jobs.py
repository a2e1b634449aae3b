"""The recorded runs: a hierarchy, a stream, options, and what happens between the batches.

Nothing here may depend on measured time: engines get a frozen clock, the spacing of snapshots is
fixed, and attenuation is never adaptive.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engines import snapshots
from benchmarks.recorded.hierarchies import HIERARCHIES
from benchmarks.snippet import Snippet
from benchmarks.streams import keyed_columns, keyed_stream, phone_streams, readings_stream
from betimes import BetimesError, ChangeBatch, Engine, EventBatch
from betimes.apps.soccer.disorder import PRESETS

Row = dict[str, Any]
STATS = ("clock", "slack", "attenuation", "buffered", "released", "handled", "replays", "replayed",
         "retracted", "late", "errors", "latency_provisional", "latency_final")  # fmt: skip
"""Readings that must be equal; the others depend on measured time, or are about memory."""
FIXED = {"attenuation": 0.3, "retraction": "full", "time": lambda: 0.0, **snapshots(16)}
SECONDS_OF_SOCCER = 4.0


@dataclass(frozen=True)
class Job:
    """One run. `between` maps the number of a batch to what happens before it."""

    hierarchy: str
    stream: str = "rows"
    batch: int = 100
    between: dict[int, str] = field(default_factory=dict)
    ends: bool = True
    """Whether open windows close at the end: `finish(advance=...)`."""
    options: dict[str, Any] = field(default_factory=dict)

    def engine(self) -> Engine:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Engine(HIERARCHIES[self.hierarchy](), **FIXED | self.options)

    def run(self) -> Iterator[Row]:
        """All rows, each with the number of its batch; then the readings of each detector."""
        engine, stream = self.engine(), STREAMS[self.stream]()
        number = -1
        try:
            for number, low in enumerate(range(0, len(stream), self.batch)):
                action = self.between.get(number, "")
                if action == "restore":
                    checkpoint, engine = engine.checkpoint(), self.engine()
                    engine.restore(checkpoint)
                elif action.startswith("attenuation"):
                    engine.set_attenuation(float(action.split()[1]))
                elif action:
                    yield from _rows(number, engine.advance(action.split()[1]))
                yield from _rows(number, engine.feed(stream[low : low + self.batch]))
            yield from self._readings(engine)
            yield from _rows(number + 1, engine.finish(advance=self.ends))
        except BetimesError as error:
            yield {"batch": number, "error": type(error).__name__}

    def _readings(self, engine: Engine) -> Iterator[Row]:
        for name, stats in engine.stats.items():
            yield {"stats": name} | {reading: getattr(stats, reading) for reading in STATS}
        yield {"rejected": engine.rejected, "ignored": dict(engine.ignored)}


def _rows(number: int, changes: ChangeBatch) -> Iterator[Row]:
    for row in changes.to_arrow().to_pylist():
        yield {"batch": number} | row


# Streams.


@cache
def _keyed() -> EventBatch:
    return keyed_stream(6_000, keys=8)


@cache
def _columns() -> EventBatch:
    return keyed_columns(6_000, keys=8)


@cache
def _skewed() -> EventBatch:
    """Some clock events are two hours ahead."""
    rows, ts = _columns(), _columns().ts.copy()
    ts[np.flatnonzero(rows.codes == 0)[100::500]] += 7_200_000_000
    return EventBatch(ts, rows.codes, rows.types, rows.payload)


@cache
def _apart() -> EventBatch:
    """The times of the keys are minutes apart."""
    rows, ts = _columns(), _columns().ts.copy()
    assert isinstance(rows.payload, pa.Table)
    ts += rows.payload["key"].to_numpy() * 120_000_000
    return EventBatch(ts, rows.codes, rows.types, rows.payload)


@cache
def _positions() -> EventBatch:
    table = Snippet.of(SECONDS_OF_SOCCER, PRESETS["bursts"]).arrivals
    return EventBatch.of(table.drop_columns(["seq", "arrived"]))


STREAMS: dict[str, Callable[[], EventBatch]] = {
    "rows": _keyed,
    "few rows": lambda: _keyed()[:1_500],
    "columns": _columns,
    "few columns": lambda: _columns()[:1_500],
    "skewed": _skewed,
    "apart": _apart,
    "readings": partial(readings_stream, 6_000),
    "positions": _positions,
}
for _name, _stream in phone_streams():
    STREAMS[f"phones {_name}"] = partial(EventBatch.of, _stream)


# The jobs.

EVERYWHERE = ("keyed", "three levels", "slices by key", "timed", "compiled", "mixed")
"""One hierarchy of each kind; they run with every variant of the options."""
TOO_LITTLE = {"slack": "20ms", "retention": "60ms"}


def all_jobs() -> dict[str, Job]:
    """Every job under its name."""
    jobs: dict[str, Job] = {}
    for name in HIERARCHIES:
        if name not in ("phones", "soccer"):
            stream = "readings" if name == "slices" else "columns"
            jobs[name] = Job(name, stream)
    jobs["fails, errors skip"] = Job("fails", options={"errors": "skip"})
    variants: dict[str, Callable[[str], Job]] = {
        f"attenuation {value:g}": partial(_with, attenuation=value) for value in (1, 0.5, 0)
    }
    variants |= {f"late {late}": partial(_with, late=late, **TOO_LITTLE) for late in LATE}
    variants |= {
        "retraction on-demand": partial(_with, retraction="on-demand"),
        "quantile slack": partial(_with, slack="quantile", max_late=0.05, margin=0.5),
        "set_attenuation": lambda n: Job(
            n, between={5: "attenuation 1", 20: "attenuation 0", 40: "attenuation 0.5"}
        ),
        "restore": lambda n: Job(n, "columns", between={7: "restore", 31: "restore"}),
        "advance": lambda n: Job(n, "columns", between={9: "advance 10ms", 30: "advance 1s"}),
        "finish(advance=False)": lambda n: Job(n, ends=False),
        "rejected": lambda n: Job(n, "skewed"),
        "by shared": lambda n: Job(n, "columns", options={"by": "key"}),
        "by key": lambda n: Job(n, "apart", options={"by": "key", "order": "key"}),
        "by key, set_attenuation": lambda n: Job(
            n, "apart", options={"by": "key", "order": "key"}, between={20: "attenuation 1"}
        ),
        "by key, restore": lambda n: Job(
            n, "apart", options={"by": "key", "order": "key"}, between={30: "restore"}
        ),
        "batches of 1": lambda n: Job(n, "few rows", batch=1),
        "batches of 7": lambda n: Job(n, "few columns", batch=7),
        "batches of 1,000": lambda n: Job(n, "columns", batch=1_000),
    }
    jobs |= {f"{h}: {name}": make(h) for h in EVERYWHERE for name, make in variants.items()}
    for name in ("forgets", "five levels"):
        jobs[f"{name}: on-demand, attenuation 0"] = _with(
            name, retraction="on-demand", attenuation=0
        )
    jobs["soccer"] = Job("soccer", "positions", batch=3_400, options={"attenuation": 1})
    jobs["soccer: attenuation 0.3"] = Job("soccer", "positions", batch=3_400)
    for name in STREAMS:
        if name.startswith("phones"):
            jobs[name] = Job("phones", name, batch=10)
            jobs[f"{name}: quantile"] = Job("phones", name, options={"slack": "quantile"})
    return jobs


LATE = ("repair", "side", "drop")


def _with(hierarchy: str, **options: Any) -> Job:
    return Job(hierarchy, options=options)
