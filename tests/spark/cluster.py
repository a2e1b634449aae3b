"""A standalone cluster on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.spark.processes import ROOT, free_port, running, wait_for

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@dataclass
class Cluster:
    address: str
    workers: list[subprocess.Popen[str]]


@contextmanager
def cluster(folder: Path, *, workers: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """A master and some workers, until the end of the block."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    with ExitStack() as stack:
        master = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        stack.enter_context(daemon(f"{package}.master.Master", *master))
        wait_for(port)
        size = ("--cores", str(cores), "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0")
        started = [
            stack.enter_context(
                daemon(
                    f"{package}.worker.Worker",
                    *size,
                    "--work-dir",
                    str(folder / f"work-{n}"),
                    address,
                )
            )
            for n in range(workers)
        ]
        yield Cluster(address, started)


def daemon(*arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A process of the cluster."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    return running(str(SPARK_CLASS), *arguments, env=environment)
