"""A whole run with its start and its end: `python -m benchmarks.spark_pipeline.whole NAME FOLDER`.

One contender reads the files of a folder, in a new process with a new session, and prints seconds
by the wall clock: until there is a session, until the query was started, the first micro-batch (in
which workers start), the whole query, its end, and the sum of all. Only `detect` has an end; those
written by hand leave behind what is not settled.

Imports only what users may import, because it also runs on older commits.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark_pipeline.contenders import CONTENDERS
from benchmarks.spark_pipeline.files import SCHEMA
from betimes import spark as bs

SLOTS = 1
CONFIG = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": str(SLOTS)}


def whole_run(name: str, files: Path) -> dict[str, float]:
    """Seconds of each part of a run."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as checkpoint:
        times = [time.perf_counter()]
        spark = bs.session("benchmark", master="local[2]", config=CONFIG)
        spark.sparkContext.setLogLevel("OFF")
        times.append(time.perf_counter())
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = CONTENDERS[name](reader.parquet(str(files)), SLOTS)
        run = None
        if name == "detect":
            run = bs.write(rows, format="noop", checkpoint=checkpoint, available_now=True)
        query = _started(rows, checkpoint) if run is None else run.query
        times.append(time.perf_counter())
        query.awaitTermination()
        times.append(time.perf_counter())
        if run is not None:
            run.finish()
        times.append(time.perf_counter())
        first = query.recentProgress[0]["durationMs"]["triggerExecution"] / 1000
        spark.stop()
    parts = ("session", "start", "query", "end")
    took = dict(zip(parts, (b - a for a, b in pairwise(times)), strict=True))
    return took | {"first micro-batch": first, "whole": times[-1] - times[0]}


def _started(rows: DataFrame, checkpoint: str) -> StreamingQuery:
    writer = rows.writeStream.format("noop").outputMode("append")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


if __name__ == "__main__":
    print(json.dumps(whole_run(sys.argv[1], Path(sys.argv[2]))))
