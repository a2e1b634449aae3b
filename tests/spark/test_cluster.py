"""The same jobs on a standalone cluster, one worker of which is killed."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Row, SparkSession

from tests.spark import ledger
from tests.spark.cluster import cluster
from tests.spark.faults import fresh, rows, victim
from tests.spark.material import write_parts
from tests.spark.processes import kill


def test_a_worker_of_a_cluster_is_killed(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path
) -> None:
    """While touches and transactions run on it."""
    fresh(source, tmp_path / "touches")
    write_parts(ledger.TABLE, tmp_path / "ledger" / "in", ledger.ROWS)
    deadly = {"end touches 1", "end ledger 1"}
    jobs = ("touches", "ledger")
    with cluster(tmp_path) as here, victim(tmp_path, *jobs, "--master", here.address) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() in deadly:
                deadly.remove(line.strip())
                if not deadly:
                    kill(here.workers[0])
        assert process.wait() == 0
    assert not deadly
    assert rows(spark, tmp_path / "touches") == undisturbed
    local = ledger.run_locally(ledger.TABLE, ledger.ROWS)
    assert ledger.told(ledger.written(spark, tmp_path / "ledger")) == ledger.told(local)
