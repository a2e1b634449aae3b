"""What the benchmarks of windows show in virtual time, which no machine changes."""

from __future__ import annotations

from statistics import median

from benchmarks.windows import virtual
from benchmarks.windows.virtual import Case


def test_sixteen_instances_do_the_work_of_fourteen_or_more() -> None:
    one, many = virtual.run(Case(1)), virtual.run(Case(16))
    assert many.throughput >= 14 * one.throughput
    assert many.found == one.found


def test_adaptive_snapshots_cost_about_as_little_as_the_best_fixed_ones() -> None:
    work = {
        spacing: virtual.run(Case(4, True, 0.0, spacing)).busy
        for spacing in (5, 10, 1_000, "adaptive")
    }
    assert work.pop("adaptive") <= 1.1 * min(work.values())


def test_latency_has_no_peak_at_an_attenuation_of_four_fifths() -> None:
    interval = round(1e6 / virtual.run(Case(16)).throughput / 0.8)
    found = {
        value: median(virtual.run(Case(16, True, value, interval=interval)).latencies)
        for value in (0.0, 0.6, 0.8)
    }
    assert found[0.8] <= found[0.6] <= found[0.0]
