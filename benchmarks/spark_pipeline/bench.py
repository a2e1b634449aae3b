"""Running the contenders in one session, side by side."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.racing import Race, Result, progress_bar
from benchmarks.spark_pipeline.checking import check
from benchmarks.spark_pipeline.contenders import CONTENDERS, HANDMADE
from benchmarks.spark_pipeline.files import SCHEMA, write_stream
from betimes import spark as bs
from betimes.spark.query.settings import query_settings

SLOTS = 1
"""Partitions and slots. On two cores, everyone is faster with one while keys are few."""
WARM_UP = 2
LAPS = 2
"""Laps that are not timed."""
FOUND = "found"


@dataclass(frozen=True)
class Bench:
    """A session and a folder."""

    spark: SparkSession
    folder: Path
    slots: int = SLOTS
    settings: dict[str, str] = field(default_factory=dict)
    narrow: bool = False
    """Whether the byte limit for an Arrow batch is lifted."""

    def files(
        self, name: str, events: int, rows: int, keys: int, *, before: pa.Table | None = None
    ) -> Path:
        """The stream as files of `rows` rows each; `before` comes first, in one file."""
        return write_stream(self.folder / name, events, rows, keys, before=before)

    def run(self, name: str, files: Path, *, checked: bool = False, skip: int = WARM_UP) -> float:
        """The median seconds of a micro-batch, without the first ones."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = CONTENDERS[name](reader.parquet(str(files)), self.slots)
        # Never the same folder twice: the state store still cleans up after a query has ended.
        checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=self.folder)
        keep = checked and name not in ("ceiling", "floor")
        writer = rows.writeStream.format("memory" if keep else "noop").outputMode("append")
        with query_settings(self.spark, self.slots, narrow=self.narrow):
            for key, value in self.settings.items():
                self.spark.conf.set(key, value)
            query = (
                writer.queryName(FOUND)
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
        query.awaitTermination()
        if keep:
            check(name, files, self.spark.table(FOUND).collect())
        took: list[int] = [p["durationMs"]["triggerExecution"] for p in query.recentProgress]
        return statistics.median(took[skip:]) / 1000

    def race(
        self,
        title: str,
        contenders: Sequence[str],
        *,
        rounds: int,
        rows: int,
        files: Path,
        laps: int = LAPS,
    ) -> Race:
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        with progress_bar() as bar:
            task = bar.add_task(title, total=(rounds + laps) * len(contenders))
            for lap in range(rounds + laps):
                for name in contenders:
                    bar.update(task, description=f"{title}: {name}")
                    took = self.run(name, files, checked=lap == 0)
                    if lap >= laps:
                        seconds[name].append(took)
                    bar.advance(task)
        results = {name: Result(name, rows, tuple(times)) for name, times in seconds.items()}
        return Race(title, results, ("ceiling", *HANDMADE))


def better(race: Race) -> float:
    """The ratio to the better of the hand-written ones."""
    return min(race.ratio("detect", name) for name in HANDMADE)


def new_session(settings: dict[str, str]) -> SparkSession:
    config = {"spark.ui.enabled": "false"} | settings
    spark = bs.session("benchmark", master="local[2]", config=config)
    spark.sparkContext.setLogLevel("OFF")
    return spark
