"""Sources and sinks of a job file that only Spark has: a socket, and formats that are missing."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from betimes import spark as bs
from betimes.spark.query.failures import reason
from tests.cli.jobs import changes, make, run, stream, written
from tests.spark.material import hierarchy, read, write_parts
from tests.spark.material import stream as sensors

COLUMNS = '[source.columns]\nts = "long"\ntype = "string"\nkey = "long"\nseq = "long"\n'
ROWS = 2_000
WAIT = 120.0


def serve(door: socket.socket, lines: bytes, over: threading.Event) -> None:
    """Send everything to the first who asks, and hold the line."""
    line, _ = door.accept()
    with line:
        line.sendall(lines)
        over.wait(WAIT)


def stop_when_written(folder: Path) -> None:
    """Ask for a stop as soon as a batch with results is there."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until and not written(folder):
        time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_socket(tmp_path: Path, spark: SparkSession) -> None:  # noqa: ARG001
    rows = stream(ROWS).select(["ts", "type", "key", "seq"]).to_pylist()
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:
        place = f'format = "socket"\nhost = "127.0.0.1"\nport = {door.getsockname()[1]}'
        file = make(
            tmp_path,
            ('format = "parquet"\npath = "events/"', place),
            ("batch_rows = 500\n", COLUMNS),
            ('kind = "local"', 'master = "local[2]"\nslots = 2'),
        )
        threads = [
            threading.Thread(target=serve, args=(door, lines, over)),
            threading.Thread(target=stop_when_written, args=(tmp_path / "out",)),
        ]
        for thread in threads:
            thread.start()
        result = run("--follow", file)
        over.set()
        for thread in threads:
            thread.join()
    assert result.exit_code == 143, result.stderr
    known = {row["ts"] for row in rows if row["type"] == "hit"}
    found = changes(written(tmp_path / "out"))
    assert found
    assert {change.ts for change in found} <= known


def test_kafka_needs_a_package_that_the_message_names(
    tmp_path: Path,
    spark: SparkSession,  # noqa: ARG001
) -> None:
    place = 'format = "kafka"\nservers = "127.0.0.1:1"\ntopic = "events"'
    file = make(
        tmp_path,
        ('format = "parquet"\npath = "events/"', place),
        ("batch_rows = 500\n", COLUMNS),
        ('kind = "local"', 'master = "local[2]"'),
    )
    result = run("--follow", file)
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:" in told
    assert "spark.jars.packages" in told
    assert "at org.apache" not in told


@pytest.mark.parametrize("format", ["delta", "kafka"])
def test_a_sink_that_needs_a_package_says_so(
    spark: SparkSession,
    tmp_path: Path,
    format: str,  # noqa: A002
) -> None:
    source = write_parts(sensors(100), tmp_path / "in", 100)
    detected = bs.detect(read(spark, source), hierarchy(), by="key", slots=1)
    run = bs.write(
        detected,
        into=lambda rows, _: rows.write.format(format).save(str(tmp_path / "out")),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
    )
    with pytest.raises(bs.RunError, match=f"(?s)does not know the format '{format}'.*--packages"):
        run.wait()
    run.stop()


def test_a_format_that_nobody_knows() -> None:
    text = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: xlsx. Make sure ..."
    assert "'xlsx'; add the package" in reason(text)
