"""Jobs from a Kafka topic, with a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from betimes import EventBatch, Hierarchy, pattern
from betimes.testing import oracle
from tests.spark.broker import Broker, Unavailable, broker
from tests.spark.material import in_order, run_locally, standing, stream

EVENTS = 2_000
PARTITIONS, EMPTY, BEHIND = 6, 5, 4
MINUTE = 60_000_000

BACKLOG = """
[source]
format = "kafka"
servers = "{servers}"
topic = "{source}"
batch_rows = 400
end = "{end}"
columns = {{ ts = "long", type = "string", key = "long" }}
options = {{ startingOffsets = "earliest" }}

[detect]
{detect}

[[detect.pattern]]
match = "near !not_near hit"
by = "key"
emits = "touch"

[[detect.pattern]]
match = "touch ball"
emits = "again"

[engine]
master = "local[2]"
checkpoint = "checkpoint"
config = {config}

[sink]
format = "parquet"
path = "changes/"
"""

JOB = """
[source]
format = "kafka"
servers = "{servers}"
topic = "{source}"
by = "key"
arrival = "seq"
batch_rows = 500
end = "{end}"
columns = {{ ts = "long", type = "string", key = "long", force = "long", seq = "long" }}
options = {{ startingOffsets = "earliest" }}

[detect]
clock = "ball"
attenuation = 0.3

[[detect.pattern]]
match = "near !not_near hit"
by = "key"
emits = "touch"

[engine]
master = "local[2]"
checkpoint = "checkpoint"
slots = 2
config = {config}

[sink]
format = "kafka"
servers = "{servers}"
topic = "{sink}"
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, request: Any) -> Iterator[Broker]:
    try:
        with broker(tmp_path_factory.mktemp("kafka"), request.config.cache.mkdir("kafka")) as one:
            yield one
    except Unavailable as reason:
        pytest.skip(f"no broker to be had: {reason}")


def topic(kafka: Broker, name: str, partitions: int = 1) -> str:
    """A new topic."""
    name = f"{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
    return name


def produce(kafka: Broker, topic: str, rows: list[dict[str, Any]]) -> None:
    """One record per row, in the partition that it names."""
    producer = Producer({"bootstrap.servers": kafka.servers, "queue.buffering.max.messages": 10**6})
    for row in rows:
        partition = row.pop("partition", 0)
        producer.produce(topic, json.dumps(row).encode(), partition=partition)
    assert producer.flush(60) == 0


def consume(kafka: Broker, topic: str) -> list[dict[str, Any]]:
    """All records of a topic of one partition."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic})
    _, count = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += [json.loads(record.value() or b"") for record in consumer.consume(count, 1)]
    consumer.close()
    return found


RUN = """
import sys
from betimes.cli import app
for job in sys.argv[1:]:
    app(["run", job], standalone_mode=False)
"""
"""Jobs one after the other: Spark starts only once."""


def write_job(folder: Path, text: str, kafka: Broker, **values: str) -> Path:
    """A job file in a folder of its own, which may be there already."""
    folder.mkdir(exist_ok=True)
    job = folder / "job.toml"
    config = f'{{ "spark.jars" = "{kafka.jars}" }}'
    job.write_text(text.format(servers=kafka.servers, config=config, **values))
    return job


def run(jobs: list[Path]) -> None:
    command = [sys.executable, "-c", RUN, *map(str, jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def backlog() -> pa.Table:
    """An hour of events in five of six partitions, in the order in which they are produced.

    Within a partition they are up to 2 s out of order, and one partition is ten minutes behind.
    """
    rng = np.random.default_rng(7)
    ts = np.sort(rng.integers(0, 60 * MINUTE, EVENTS))
    partition = rng.integers(0, EMPTY, EVENTS)
    produced = ts + rng.integers(0, 2_000_000, EVENTS) + 10 * MINUTE * (partition == BEHIND)
    order = np.argsort(produced, kind="stable")
    types = np.array(["near", "not_near", "hit", "ball"])[rng.integers(0, 4, EVENTS)]
    columns = {"ts": ts, "type": types, "key": rng.integers(0, 8, EVENTS), "partition": partition}
    return pa.table({name: pa.array(column[order]) for name, column in columns.items()})


APART = {"repaired": "", "nothing late": "late = 'side'\nslack = '3s'"}
"""Settings of the jobs that read the backlog."""


def test_jobs_with_a_stop_between(kafka: Broker, tmp_path: Path) -> None:
    """What was read up to the stop is not read again, and the end settles everything.

    From a topic to a topic; and an hour of backlog, one partition empty, one ten minutes behind:
    nothing is late. All jobs stop, and go on in a new process.
    """
    source, sink = topic(kafka, "events"), topic(kafka, "changes")
    events = stream(EVENTS).to_pylist()
    apart, table = topic(kafka, "backlog", PARTITIONS), backlog()
    before = {"open": (0, 0), "advance": (EVENTS // 2, EVENTS // 3)}
    until = {"open": before["advance"], "advance": (EVENTS, EVENTS)}
    for end in ("open", "advance"):
        (low, early), (high, late) = before[end], until[end]
        produce(kafka, source, events[low:high])
        produce(kafka, apart, table.slice(early, late - early).to_pylist())
        jobs = [write_job(tmp_path / "topics", JOB, kafka, source=source, sink=sink, end=end)]
        for name, detect in APART.items():
            values = {"source": apart, "end": end, "detect": detect}
            jobs.append(write_job(tmp_path / name, BACKLOG, kafka, **values))
        run(jobs)
    check_topic(consume(kafka, sink))
    for name in APART:
        check_backlog(table, tmp_path / name / "changes")


def check_topic(found: list[dict[str, Any]]) -> None:
    rows = in_order(SimpleNamespace(**row) for row in found)
    assert len({(row.slot, row.seq) for row in rows}) == len(rows)
    detectors = Hierarchy(clock="ball")
    detectors.add(pattern("near !not_near hit", by="key", emits="touch"))
    assert standing(rows) == standing(run_locally(stream(EVENTS), detectors, attenuation=0.3))


def check_backlog(table: pa.Table, folder: Path) -> None:
    rows = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    assert not [row for row in rows if row["type"] in ("late", "rejected")]
    steps = {"insert": 1, "confirm": 0, "delete": -1}
    found: Counter[tuple[str, int]] = Counter()
    for row in rows:
        found[row["type"], row["ts"]] += steps[row["change_type"]]
    detectors = Hierarchy()
    detectors.add(pattern("near !not_near hit", by="key", emits="touch"))
    detectors.add(pattern("touch ball", emits="again"))
    events = EventBatch.from_arrow(table.select(["ts", "type", "key"])).rows()
    expected: Counter[tuple[str, int]] = Counter()
    for (type, ts, _), count in oracle(detectors, events).items():
        expected[type, ts] += count
    assert expected == +found
    assert len(expected) > 100
