"""The experiments of the papers: the slowed-down machine is right, and every experiment runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.papers.__main__ import NAMES, main
from benchmarks.papers.machine import Arrivals, Machine, batches
from benchmarks.papers.speculating import UNKNOWN_SENSOR, with_burst
from benchmarks.snippet import Snippet

from betimes.apps.soccer.disorder import PRESETS


def arriving(*seconds: float) -> pa.Table:
    arrived = [round(second * 1e6) for second in seconds]
    return pa.table({"ts": arrived, "seq": list(range(len(arrived))), "arrived": arrived})


class TestMachine:
    def test_the_load_is_the_share_of_each_second_that_it_worked(self) -> None:
        machine = Machine(1.0)
        machine.worked = [(0.5, 1.25), (2.0, 2.5)]
        assert machine.load(4.0).tolist() == [0.5, 0.25, 0.5, 0.0]

    def test_it_jumps_over_pauses_but_never_back(self) -> None:
        machine = Machine(0.0)
        for due, starts in ((5.0, 5.0), (3.0, 5.0), (7.0, 7.0)):
            with machine.working(due):
                pass
            assert machine.worked[-1] == (starts, starts)

    def test_work_takes_as_much_longer_as_it_is_slow(self) -> None:
        machine = Machine(1e6)
        with machine.working(0.0):
            sum(range(100_000))
        assert machine() > 100.0


class TestArrivals:
    def test_a_batch_is_what_has_arrived(self) -> None:
        arrivals = Arrivals([arriving(0.1, 0.2), arriving(0.3, 0.4, 0.9)])
        taken = [arrivals.until(second) for second in (0.05, 0.3, 0.8, 2.0)]
        found = [[] if each is None else each["ts"].to_pylist() for each in taken]
        assert found == [[], [100_000, 200_000, 300_000], [400_000], [900_000]]
        assert arrivals.until(9.0) is None

    def test_a_busy_machine_gets_larger_batches(self) -> None:
        machine, rows = Machine(0.0), []
        for due, batch in batches(machine, [arriving(*np.arange(0.01, 1.0, 0.01))]):
            rows.append(len(batch))
            with machine.working(due + 0.25 * (len(rows) == 1)):
                pass
        assert rows == [10, 25, 10, 10, 10, 10, 10, 10, 4]


def test_a_burst_adds_positions_of_sensors_that_nobody_wears() -> None:
    snippet = Snippet.of(9.0, PRESETS["lan"])
    arrivals = with_burst(snippet, copies=1).arrivals
    more = arrivals.num_rows - snippet.arrivals.num_rows
    assert more > 1_000
    assert np.count_nonzero(arrivals["sid"].to_numpy() == UNKNOWN_SENSOR) == more
    assert (np.diff(arrivals["arrived"].to_numpy()) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([name, "--quick", "--seconds", "3", "--minutes", "0.05", "--pictures", str(tmp_path)])
    assert "papers" in capsys.readouterr().out or name == "slack"
    drawn = {"latency", "load", "adaptation", "slack", "delays"}
    assert [path.stem for path in tmp_path.iterdir()] == ([f"papers-{name}"] * (name in drawn))
