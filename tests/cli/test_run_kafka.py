"""A job from a Kafka topic to another, with a real broker; whoever has one names it.

`BETIMES_KAFKA=localhost:9092 pytest tests/cli/test_run_kafka.py`. Spark fetches the package that it
needs, unless `BETIMES_KAFKA_JARS` names its files, with commas between them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from betimes import EventBatch, Hierarchy, pattern
from betimes.spark.query.failures import PACKAGES
from betimes.testing import oracle
from tests.spark.material import in_order, run_locally, standing, stream

SERVERS = os.environ.get("BETIMES_KAFKA", "")
JARS = os.environ.get("BETIMES_KAFKA_JARS")
CONFIG = {"spark.jars": JARS} if JARS else {"spark.jars.packages": PACKAGES["kafka"]}
EVENTS = 4_000
PARTITIONS, EMPTY, BEHIND = 6, 5, 4
MINUTE = 60_000_000

CLIENT = f"""
import json, sys
from betimes import spark as bs
from tests.spark.material import stream
topic, *halves = sys.argv[1:]
spark = bs.session("client", master="local[1]", config={CONFIG!r})
if halves:
    first, last = map(int, halves)
    rows = spark.createDataFrame(stream({EVENTS}).slice(first, last - first).to_pandas())
    rows = rows.coalesce(1).selectExpr("cast(key as string) as key", "to_json(struct(*)) as value")
    rows = rows.write.format("kafka").option("topic", topic)
    rows.option("kafka.bootstrap.servers", {SERVERS!r}).save()
else:
    rows = spark.read.format("kafka").option("subscribe", topic)
    rows = rows.option("kafka.bootstrap.servers", {SERVERS!r}).load()
    print(json.dumps([json.loads(row.value) for row in rows.collect()]))
"""

PRODUCER = f"""
import sys
from betimes import spark as bs
topic, file, first, last = sys.argv[1:]
spark = bs.session("producer", master="local[1]", config={CONFIG!r})
kafka = spark._jvm.org.apache.kafka.clients.admin
if first == "0":
    settings = spark._jvm.java.util.HashMap()
    settings.put("bootstrap.servers", {SERVERS!r})
    admin = kafka.AdminClient.create(settings)
    topics = spark._jvm.java.util.Collections.singleton(kafka.NewTopic(topic, {PARTITIONS}, 1))
    admin.createTopics(topics).all().get()
    admin.close()
rows = spark.read.parquet(file).where(f"seq >= {{first}} and seq < {{last}}").coalesce(1)
rows = rows.sortWithinPartitions("seq").selectExpr(
    "cast(partition as int) as partition", "to_json(struct(ts, type, key)) as value"
)
rows = rows.write.format("kafka").option("topic", topic)
rows.option("kafka.bootstrap.servers", {SERVERS!r}).save()
"""

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


def python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not SERVERS, reason="no Kafka broker was named with BETIMES_KAFKA")
def test_from_a_topic_to_a_topic_with_a_stop_between(tmp_path: Path) -> None:
    """What was read up to the stop is not read again, and the end settles everything."""
    mark = uuid.uuid4().hex[:8]
    source, sink, job = f"events-{mark}", f"changes-{mark}", tmp_path / "job.toml"
    config = "{ " + ", ".join(f'"{key}" = "{value}"' for key, value in CONFIG.items()) + " }"
    for half, end in enumerate(("open", "advance")):
        first, last = half * EVENTS // 2, (half + 1) * EVENTS // 2
        python("-c", CLIENT, source, str(first), str(last))
        text = JOB.format(servers=SERVERS, source=source, sink=sink, end=end, config=config)
        job.write_text(text)
        python("-m", "betimes", "run", str(job))
    said = json.loads(python("-c", CLIENT, sink).splitlines()[-1])
    rows = in_order(SimpleNamespace(**row) for row in said)
    assert len({(row.slot, row.seq) for row in rows}) == len(rows)
    detectors = Hierarchy(clock="ball")
    detectors.add(pattern("near !not_near hit", by="key", emits="touch"))
    assert standing(rows) == standing(run_locally(stream(EVENTS), detectors, attenuation=0.3))


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
    return pa.table(
        {name: pa.array(column[order]) for name, column in columns.items()}
        | {"seq": pa.array(np.arange(EVENTS))}
    )


@pytest.mark.skipif(not SERVERS, reason="no Kafka broker was named with BETIMES_KAFKA")
@pytest.mark.parametrize("detect", ["", "late = 'side'\nslack = '3s'"])
def test_partitions_that_are_far_apart_and_a_stop_between(tmp_path: Path, detect: str) -> None:
    """An hour of backlog, one partition empty, one ten minutes behind: nothing is late."""
    topic, job, file = f"backlog-{uuid.uuid4().hex[:8]}", tmp_path / "job.toml", tmp_path / "rows"
    table = backlog()
    pq.write_table(table, file)
    config = "{ " + ", ".join(f'"{key}" = "{value}"' for key, value in CONFIG.items()) + " }"
    cuts = (0, EVENTS // 3, EVENTS // 2, EVENTS)
    for first, last in pairwise(cuts):
        python("-c", PRODUCER, topic, str(file), str(first), str(last))
        end = "advance" if last == EVENTS else "open"
        job.write_text(
            BACKLOG.format(servers=SERVERS, source=topic, end=end, config=config, detect=detect)
        )
        python("-m", "betimes", "run", str(job))
    rows = ds.dataset(tmp_path / "changes", partitioning="hive").to_table().to_pylist()
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
