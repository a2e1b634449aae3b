"""The same result through Spark Connect."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from betimes import Change
from tests.spark.material import run_locally, standing, stream, write_parts
from tests.spark.processes import ROOT

EVENTS = 2_000
NEEDED = ("grpc", "grpc_status", "zstandard")


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, NEEDED)),
    reason="Spark Connect is not installed; pip install 'betimes[connect]' brings what it needs",
)
def test_the_same_through_connect(tmp_path: Path) -> None:
    table = stream(EVENTS)
    write_parts(table, tmp_path / "in", EVENTS // 2)
    command = [sys.executable, "-m", "tests.spark.remote", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    noticed = json.loads(done.stdout.splitlines()[-1])
    expected = standing(run_locally(table, attenuation=0.3))
    for name in ("batch", "out"):
        assert standing(written(tmp_path / name)) == expected
    pairs = [row for row in expected.values() if row[0] == "pair"]
    assert (noticed["rows"], noticed["pairs"]) == (EVENTS, len(pairs))
    assert noticed["detectors"] == ["NotBetween", "Pairs"]
    console, infer = noticed["refused"]
    assert "where Spark is" in console
    assert "give the types" in infer


def written(folder: Path) -> list[Change]:
    """The rows of a folder in the order of slot and seq."""
    rows = ds.dataset(folder, format="parquet").to_table().to_pylist()
    rows.sort(key=lambda row: (row["slot"], row["seq"]))
    return [Change(**{name: row[name] for name in Change.__struct_fields__}) for row in rows]
