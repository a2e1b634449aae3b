"""The ledger of the examples: what a program announces, and what the job file writes."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def call(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ledger")
    for name in ("ledger.py", "ledger.toml"):
        shutil.copy(EXAMPLES / name, place)
    (place / "printed").write_text(call(place, "ledger.py", "payments.csv"))
    call(place, "-m", "betimes", "run", "ledger.toml")
    return place


def batches(folder: Path) -> list[list[dict[str, Any]]]:
    found = sorted(folder.glob("ledger-changes/batch=*/*.csv"), key=_number)
    read = []
    for path in found:
        with path.open(newline="") as file:
            read.append(list(csv.DictReader(file)))
    return read


def _number(path: Path) -> int:
    return int(path.parent.name.removeprefix("batch="))


def test_balances_of_the_job_sum_to_zero_after_every_batch(folder: Path) -> None:
    """And in the end they are those of the program, and of the payments themselves."""
    told: dict[str, tuple[int, int, int, int]] = {}
    taken_back = 0
    for batch in batches(folder):
        for row in batch:
            if row["type"] != "balance":
                continue
            payload = json.loads(row["payload"])
            if row["change_type"] == "delete":
                taken_back += 1
                del told[row["match_id"]]
            elif row["change_type"] == "insert":
                told[row["match_id"]] = (
                    int(row["ts"]), payload["payment"], payload["account"], payload["cents"],
                )  # fmt: skip
        balances = {account: cents for *_, account, cents in sorted(told.values())}
        assert sum(balances.values()) == 0
    assert taken_back > 100
    expected = dict.fromkeys(balances, 0)
    with (folder / "payments.csv").open(newline="") as file:
        for payment in csv.DictReader(file):
            expected[int(payment["payer"])] -= int(payment["cents"])
            expected[int(payment["payee"])] += int(payment["cents"])
    assert balances == expected
    printed = (folder / "printed").read_text()
    assert "batches after which balances did not sum to 0: 0" in printed
    for account, cents in expected.items():
        assert f"account {account:2}: {cents / 100:10.2f}" in printed
    assert "suspect: []" not in printed
