"""The process that Spark's Python workers are forked from, with everything already loaded.

A worker that starts from scratch needs a second or two for its imports and for the compiled code of
its engines, and Spark starts several. Workers that are forked from this process have all of it
already; where the code was never compiled before, it is compiled once instead of in each of them.
`session` tells Spark to use this process; for other sessions, set `spark.python.daemon.module` to
the name of this module.

A worker collects garbage after each task. That takes a tenth of a second if the collector looks at
everything that was imported, and meanwhile an engine in that worker cannot answer its siblings. So
objects that exist before the fork are hidden from the collector.
"""

from __future__ import annotations

import gc

import pandas
from pyspark.daemon import manager

import betimes.spark.slots.operator
from betimes.model import Event
from betimes.ordering import OrderingUnit

__all__ = ["betimes", "manager", "pandas"]


def load_compiled() -> None:
    """Run once what every engine runs."""
    OrderingUnit(clock="tick").feed([Event("tick", 0), Event("tick", 1)])


if __name__ == "__main__":
    load_compiled()
    gc.collect()
    gc.freeze()
    manager()
