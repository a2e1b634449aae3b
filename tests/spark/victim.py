"""A run in a process of its own, which a test may kill: `python -m tests.spark.victim FOLDER`.

It takes what is in FOLDER/in, writes to FOLDER/out with FOLDER/checkpoint, says on stdout when it
begins to write a batch, and ends when everything has settled. Started again, it goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame

from betimes import Hierarchy
from betimes import spark as bs
from betimes.spark.query.sinks import FileSink
from tests.spark import ledger
from tests.spark.conftest import session_settings
from tests.spark.material import OPTIONS, hierarchy, read
from tests.spark.windowing import Highs, windows


def deadly_windows(folder: Path, apart: int, here: int) -> Hierarchy:
    """The times at which an instance kills its process, and an engine that of Spark's worker."""
    return windows(
        apart=Highs(folder=str(folder), deadly=apart), here=Highs(folder=str(folder), deadly=here)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--adaptive", action="store_true", help="wait as the load allows")
    parser.add_argument("--ledger", action="store_true", help="transfers among accounts")
    parser.add_argument("--windows", action="store_true", help="windows instead of touches")
    parser.add_argument(
        "--deadly", type=int, nargs=2, default=(-1, -1), help=deadly_windows.__doc__
    )
    options = parser.parse_args()
    folder: Path = options.folder
    detectors = deadly_windows(folder, *options.deadly) if options.windows else hierarchy()
    config = session_settings(folder) | {"spark.driver.host": "127.0.0.1"}
    spark = bs.session("victim", master=options.master, config=config)
    spark.sparkContext.setLogLevel("OFF")
    how = OPTIONS | {"attenuation": "adaptive"} if options.adaptive else OPTIONS
    if options.ledger:
        changes = ledger.detected(spark, folder)
    else:
        changes = bs.detect(read(spark, folder / "in"), detectors, **how)
    sink = FileSink(str(folder / "out"))

    def write(rows: DataFrame, batch: int) -> None:
        print(f"begin {batch}", flush=True)
        sink.write(rows, batch)
        print(f"end {batch}", flush=True)

    with bs.write(
        changes, into=write, checkpoint=str(folder / "checkpoint"), available_now=True
    ) as run:
        run.finish()
    print("finished", flush=True)


if __name__ == "__main__":
    main()
