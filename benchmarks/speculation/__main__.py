"""What speculation gains and costs: `python -m benchmarks.speculation [--quick]`.

* *Latency*: stream time from an output's `ts` to the clock at which the engine made it, averaged
  over the final result. If an output was taken back and made again, the last time counts. The
  machine is simulated: it is idle until the stream reaches the next batch, and every event that a
  detector handles takes a fixed time, so `adaptive` behaves the same in every run. Buffering is
  attenuation 1.
* *Retraction*: the events that retraction touches (outputs retracted, events handled again) and the
  CPU time of each technique, in three hierarchies of five levels. In the first, states forget: soon
  after a wrong event they are what they would have been without it. In the second, the upper levels
  never forget. In the third, every event changes all outputs after it, and states are free to save
  but expensive to compare: the worst case for on demand. A snapshot is taken before every event:
  the adaptive model depends on measured time, so counts would differ from run to run.
* *Throughput*: `A !B C` by key in plain Python, against a loop that sorts the whole stream (it
  knows the future), builds the same `Event` objects and calls the same detector.
* *Columns*: peaks of a reading, found per batch in the columns of an Arrow table, against the same
  detector per event, and against one call with the whole stream sorted (it knows the future).
* *Snapshots*: memory against the size of the state, by snapshot model.

All runs that are compared must come to the same final result.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.racing import report
from benchmarks.speculation.columns import race_columns
from benchmarks.speculation.detectors import all_change, five_levels
from benchmarks.speculation.latency import measure_latency
from benchmarks.speculation.measuring import Size
from benchmarks.speculation.memory import measure_snapshots
from benchmarks.speculation.retraction import race_retraction
from benchmarks.speculation.throughput import race_throughput


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speculation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=300_000, help="length of the stream")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    size = Size.of(options.events, quick=options.quick)
    readings = measure_snapshots(size)
    latencies, targets = measure_latency(size)
    readings |= latencies
    races = []
    hierarchies = {
        "states forget": (five_levels(forgets=True), 100),
        "states carry on": (five_levels(forgets=False), 100),
        "all outputs change": (all_change(), 20),
    }
    for states, (hierarchy, batch) in hierarchies.items():
        found, touched, judged = race_retraction(size, states, hierarchy, batch=batch)
        races.append(found)
        readings |= touched
        targets += judged
    throughput, judged = race_throughput(size)
    columns, more = race_columns(size)
    # A quick run is too short for conclusions.
    targets = [] if options.quick else [*targets, *judged, *more]
    report([*races, throughput, columns], targets, readings=readings, as_json=options.json)


if __name__ == "__main__":
    main()
