"""How Python processes start on this machine: with pyspark as it is installed, not as a zip file.

Spark puts a zip file of pyspark first on the path of every Python process that it starts: workers,
and one process per query that tells which state the query has. The zip file has no compiled
modules, so each of these processes compiles hundreds of files before it does anything. Spark gives
up a query whose processes take too long to start, which happens on a busy machine.

Where pyspark is installed, its modules are compiled. So these processes are started by a script
that takes Spark's zip files off the path. It is used only if this process has found pyspark in the
same place, and only on this machine: a cluster has no such script.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext

_SCRIPT = """\
#!/bin/sh
# Made by betimes: starts Python without the zip files that Spark puts first on its path.
PYTHONPATH="${{PYTHONPATH#*/pyspark.zip:*-src.zip:}}" exec {python} "$@"
"""


def start_unzipped(context: SparkContext) -> None:
    """Let the Python processes of a context use the pyspark that is installed here, if they can."""
    here = str(context.master).startswith("local") and context.pythonExec == sys.executable
    if here and "SPARK_HOME" not in os.environ and Path(str(pyspark.__file__)).exists():
        script = launcher()
        if os.access(script, os.X_OK):  # programs may not be allowed in this folder
            context.pythonExec = str(script)


@functools.cache
def launcher() -> Path:
    """A script that runs the same Python as this process; it exists as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="betimes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "python"
    script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    return script
