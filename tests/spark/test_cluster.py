"""The same job on a standalone cluster, one worker of which is killed."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Row, SparkSession

from tests.spark.cluster import cluster
from tests.spark.processes import kill
from tests.spark.test_faults import fresh, rows, source, undisturbed, victim

__all__ = ["source", "undisturbed"]  # fixtures


def test_a_worker_of_a_cluster_is_killed(
    spark: SparkSession, source: Path, undisturbed: list[Row], tmp_path: Path
) -> None:
    folder = fresh(source, tmp_path)
    with cluster(folder) as here, victim(folder, "--master", here.address) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("end 2"):
                kill(here.workers[0])
        assert process.wait() == 0
    assert rows(spark, folder) == undisturbed
