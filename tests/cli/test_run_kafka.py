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
from pathlib import Path
from types import SimpleNamespace

import pytest

from betimes import Hierarchy, pattern
from betimes.spark.query.failures import PACKAGES
from tests.spark.material import in_order, run_locally, standing, stream

SERVERS = os.environ.get("BETIMES_KAFKA", "")
JARS = os.environ.get("BETIMES_KAFKA_JARS")
CONFIG = {"spark.jars": JARS} if JARS else {"spark.jars.packages": PACKAGES["kafka"]}
EVENTS = 4_000

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
