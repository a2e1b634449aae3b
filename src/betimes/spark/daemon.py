"""The process that Spark's Python workers are forked from, with everything imported beforehand.

A worker that starts from nothing needs a second or two for its imports, and Spark starts several.
Forked from this process they have them already. `session` has Spark use it; other sessions set
`spark.python.daemon.module` to the name of this module.

After each task a worker collects garbage, and that takes a tenth of a second if it looks at all
that was imported; an engine in that worker cannot answer its siblings meanwhile. So what is there
before the fork is put out of the collector's sight.
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
