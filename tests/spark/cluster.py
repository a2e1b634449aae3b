"""A standalone cluster on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.spark.test_faults import ROOT, kill

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


@contextmanager
def daemon(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of the cluster, with its children in a group of its own."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    process = subprocess.Popen(
        [str(SPARK_CLASS), *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"expected the master to listen on port {port}")
