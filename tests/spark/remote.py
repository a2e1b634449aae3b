"""A run through Spark Connect, in a process of its own: `python -m tests.spark.remote FOLDER`.

A process has sessions of one kind only. This one takes what is in FOLDER/in, once as a batch and
once as a stream, writes the changes to FOLDER/batch and FOLDER/out, and prints what it noticed.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

from betimes import OptionError
from betimes import spark as bs
from tests.spark.material import OPTIONS, SCHEMA, hierarchy, read


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    at_rest = spark.read.schema(SCHEMA).parquet(str(folder / "in"))
    bs.detect(at_rest, hierarchy(), **OPTIONS).write.parquet(str(folder / "batch"))
    changes = bs.detect(read(spark, folder / "in"), hierarchy(), **OPTIONS)
    checkpoint = str(folder / "checkpoint")
    with bs.write(changes, str(folder / "out"), checkpoint=checkpoint, available_now=True) as run:
        with bs.statistics(run) as statistics:
            run.wait()
            noticed = {
                "rows": sum(batch.rows for batch in statistics.batches),
                "detectors": sorted(statistics.detectors),
            }
        run.finish()
    written = spark.read.parquet(str(folder / "out"))
    noticed["pairs"] = bs.table(written, "pair", schema="took long").count()
    refused: list[str] = []
    noticed["refused"] = refused
    try:
        bs.write(changes, format="console", checkpoint=str(folder / "another"))
    except OptionError as error:
        refused.append(str(error))
    try:
        bs.table(written, "pair", schema="infer")
    except OptionError as error:
        refused.append(str(error))
    print(json.dumps(noticed))
    spark.stop()


if __name__ == "__main__":
    main()
