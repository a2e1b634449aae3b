"""The process that Spark's Python workers are forked from, with everything already imported.

A worker that starts from scratch needs a second or two for its imports, and Spark starts several.
Workers that are forked from this process have the imports already. `session` tells Spark to use it;
for other sessions, set `spark.python.daemon.module` to the name of this module.

A worker collects garbage after each task. That takes a tenth of a second if the collector looks at
everything that was imported, and meanwhile an engine in that worker cannot answer its siblings. So
objects that exist before the fork are hidden from the collector.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import betimes.spark.slots.operator

__all__ = ["betimes", "manager"]

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
