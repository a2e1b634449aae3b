"""A Kafka broker on this machine, and what Spark needs to talk to it.

Both are Java packages, which Ivy fetches by their names the first time; Ivy comes with PySpark.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.spark.processes import JAVA_OPTIONS, free_port, running, wait_for

KAFKA = "3.9.1"
"""The last version whose broker runs with every Java that Spark runs with."""

CLIENTS = (
    (pyspark.__version__, pyspark.__version__),
    # Registries may not have the connector of the newest Spark yet; this one works with it, too.
    ("4.2.0", "4.0.0"),
)
"""Versions of the connector, and of the package with which it shows its tokens."""

PACKAGE = '<dependency org="{}" name="{}" rev="{}" transitive="{}" conf="default"/>'
IVY = """\
<ivy-module version="2.0">
  <info organisation="betimes" module="tests"/>
  <dependencies>{}</dependencies>
</ivy-module>
"""

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
"""An identity, as brokers like them."""


class Unavailable(Exception):
    """The packages cannot be had."""


@dataclass
class Broker:
    servers: str
    jars: str
    """The files of Spark's connector, with commas between them."""


@contextmanager
def broker(folder: Path, kept: Path) -> Iterator[Broker]:
    """A broker with its data in a folder, until the end of the block; packages are kept."""
    jars = connector(kept)
    classes = str(fetch(kept / "broker", ("org.apache.kafka", "kafka_2.13", KAFKA, True)) / "*")
    port, settings = free_port(), folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=free_port(), folder=folder))
    tool = ("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings))
    subprocess.run([*java(), "-cp", classes, *tool], check=True, capture_output=True)
    with running(*java(), "-Xmx256m", "-cp", classes, "kafka.Kafka", str(settings)):
        wait_for(port)
        yield Broker(f"127.0.0.1:{port}", jars)


def connector(kept: Path) -> str:
    """Spark's connector: that of the version in use, or the nearest that can be had."""
    for version, tokens in CLIENTS:
        packages = (
            ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version, False),
            ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", tokens, False),
            ("org.apache.kafka", "kafka-clients", KAFKA, False),
            ("org.apache.commons", "commons-pool2", "2.12.0", False),
        )
        try:
            folder = fetch(kept / f"connector-{version}", *packages)
        except Unavailable:
            continue
        return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))
    raise Unavailable("Spark's connector for Kafka")


def fetch(folder: Path, *packages: tuple[str, str, str, bool]) -> Path:
    """A folder with the files of packages, with all that they need if they are transitive."""
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        listed = [PACKAGE.format(*names, str(more).lower()) for *names, more in packages]
        wanted = folder / "ivy.xml"
        wanted.write_text(IVY.format("".join(listed)))
        (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
        retrieve = ("-types", "jar", "bundle", "-retrieve", f"{folder}/[artifact]-[revision].[ext]")
        command = [*java(), "-jar", str(ivy), "-ivy", str(wanted), *retrieve]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise Unavailable(f"{packages[0][1]} {packages[0][2]}: {ran.stderr or ran.stdout}")
        done.touch()
    return folder


def java() -> tuple[str, ...]:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    return (program, *JAVA_OPTIONS.split())
