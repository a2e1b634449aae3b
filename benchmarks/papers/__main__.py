"""The papers' experiments on this machine: `python -m benchmarks.papers [NAME ...] [--quick]`.

The stream is the simulated match, 65 s as in the papers, with jitter, packets and bursts. The
papers' machine spent 50 to 70 % of a core on pure buffering. Here, each run is on a core slowed
down so far that pure buffering takes 60 % of it (`machine.py` says how), and all times are those of
the match. `--live` replays the match faster instead, by the wall clock; use it on an idle machine.

| name | experiment |
|---|---|
| latency | speculation, figure 10: latency of passes, from the reception until they are told |
| adaptation | speculation, figure 11: attenuation and busy factor over 20 s, with a burst of load |
| load | speculation, figure 12: CPU load of buffering, adaptive speculation, and no waiting |
| memory | speculation, 5.3: megabytes per detector in these modes, as memory |
| retraction | speculation, 5.4: what full and on-demand retraction touch over 45 minutes |
| equal | the same for 5 minutes, with the same attenuation for both techniques |
| lengths | the same for 4 s without waiting, by the length of batches |
| slack | ordering, figure 7: slack of each detector, by level |
| delays | ordering, figure 9: delays and slack of *player hits ball* and of the level below |
| order | ordering, IV-A: what arrives out of order at each level, and what ordering costs |

Without a name, everything runs but `equal` and `retraction`, which take some minutes and a quarter
of an hour. Runs that are compared must give the same final result.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.papers import memory, ordering, plots, speculating
from benchmarks.papers.speculating import Touched, Trace
from benchmarks.racing import Target, report
from benchmarks.snippet import Snippet
from betimes.apps.soccer.disorder import PRESETS

Readings = dict[str, dict[str, str]]
Found = tuple[Readings, list[Target]]
PAPERS_MEMORY = {"buffering": 1.12, "adaptive": 14.85, "attenuation 0": 21.1}
"""Megabytes per detector, speculation, section 5.3."""
SHORT = 5.0
"""Minutes of the match for which retraction is counted at the same attenuation."""
EQUAL = (0.5, 0.0)
"""The attenuations at which techniques of retraction are compared."""
LENGTHS = (0.1, 0.01, 0.002, 0.0005, 0.0)
"""Seconds per batch; 0 is one position per batch, as in the papers."""
LENGTHS_SECONDS = 4.0
"""Seconds of the match that are cut into batches of different lengths."""


@dataclass
class Experiments:
    """The experiments, with the streams and runs that several of them need."""

    seconds: float
    minutes: float
    live: bool
    pictures: Path | None
    quick: bool = False

    @cached_property
    def snippet(self) -> Snippet:
        return Snippet.of(self.seconds, PRESETS["bursts"])

    @cached_property
    def modes(self) -> tuple[float, dict[str, Trace]]:
        return speculating.modes(self.snippet, live=self.live)

    def _draw(self, name: str, draw: Callable[[Path], None]) -> None:
        if self.pictures is not None:
            self.pictures.mkdir(parents=True, exist_ok=True)
            draw(self.pictures / f"papers-{name}.png")

    def latency(self) -> Found:
        slowness, traces = self.modes
        self._draw("latency", lambda path: plots.latency(traces, path))
        slow = traces["buffering"].mean_latency()
        rows = {
            name: f"{trace.mean_latency():.0f} ms, {1 - trace.mean_latency() / slow:.0%} less; "
            f"mean attenuation {trace.steady(trace.attenuation):.2f}"
            for name, trace in traces.items()
        }
        rows |= {"passes": str(len(traces["buffering"].told)), "slowness": f"{slowness:.1f}"}
        saved = 1 - traces["adaptive"].mean_latency() / slow
        return {"Latency of passes (papers: 1,276 ms, below 800 ms)": rows}, [
            Target("latency of passes under load: share saved", 0.4, saved)
        ]

    def load(self) -> Found:
        _, traces = self.modes
        self._draw("load", lambda path: plots.load(traces, self.seconds, path))
        rows = {}
        for name, trace in traces.items():
            shares = trace.machine.load(self.seconds)
            late, end = max(trace.lags), trace.lags[-1]
            rows[name] = (
                f"mean {shares.mean():.0%}, seconds above 99 %: {np.count_nonzero(shares > 0.99)}; "
                f"largest lag {late * 1e3:.0f} ms, at the end {end * 1e3:.0f} ms"
            )
        return {"CPU load (papers: 50-70 %, in the zone, above 90 %)": rows}, []

    def adaptation(self) -> Found:
        seconds = min(20.0, self.seconds)
        snippet = Snippet.of(seconds, PRESETS["lan"])
        slowness, trace = speculating.adaptation(snippet, live=self.live)
        self._draw("adaptation", lambda path: plots.adaptation(trace, seconds, path))
        burst = [
            (busy, attenuation)
            for at, busy, attenuation in zip(
                trace.times, trace.busy, trace.attenuation, strict=True
            )
            if speculating.BURST[0] <= at <= speculating.BURST[1] + 0.5
        ]
        rows = {
            "slowness": f"{slowness:.1f}",
            "least attenuation before the burst": f"{_least(trace, speculating.BURST[0]):.3f}",
            "largest busy factor in the burst": f"{max((b for b, _ in burst), default=0):.2f}",
            "largest attenuation in the burst": f"{max((a for _, a in burst), default=0):.2f}",
            "attenuation at the end": f"{trace.attenuation[-1]:.3f}",
        }
        return {"Adaptation (papers: down to 0.125, reset at 0.95)": rows}, []

    def memory(self) -> Found:
        retentions = memory.RETENTION[:1] if self.quick else memory.RETENTION
        found = memory.measured(self.seconds, retentions)
        rows, targets = {}, []
        for name, each in found.items():
            papers = PAPERS_MEMORY[name.split(",")[0]]
            rows[name] = (
                f"{each['mean']:.2f} MB per detector, at most {each['most']:.2f} (papers: {papers})"
            )
            targets.append(Target(f"papers' memory over ours, {name}", 1, papers / each["mean"]))
        return {"Memory": rows}, targets

    def retraction(self) -> Found:
        """Adaptive as in the papers: what a technique saves, it may spend on more speculation."""
        return self._retraction(self.minutes, "adaptive")

    def equal(self) -> Found:
        """The same attenuation for both techniques, for a shorter stretch."""
        readings: Readings = {}
        targets: list[Target] = []
        for attenuation in EQUAL:
            found, judged = self._retraction(min(self.minutes, SHORT), attenuation)
            readings |= found
            targets += judged
        return readings, targets

    def _retraction(self, minutes: float, attenuation: float | str) -> Found:
        found = speculating.retraction(minutes, attenuation=attenuation)
        mode = "adaptive" if attenuation == "adaptive" else f"attenuation {attenuation}"
        rows = {
            name: f"{_counts(each.touched)}; mean attenuation {each.attenuation:.2f}; latency "
            f"of passes {each.latency:.0f} ms; CPU load {each.load:.0%}"
            for name, each in found.items()
        } | {"papers, 45 minutes": "117,600 against 12,300 events"}
        full, demand = found["full"].touched, found["on-demand"].touched
        taken_back = full.retracted / max(1, demand.retracted)
        touched = full.total / max(1, demand.total)
        return {f"Retraction over {minutes:g} minutes, {mode}": rows}, [
            Target(f"taken back, full over on demand, {mode}", 5, taken_back),
            Target(f"touched, full over on demand, {mode}", 5, touched),
        ]

    def lengths(self) -> Found:
        """What batches hide from both techniques: the papers' system takes events one by one."""
        snippet = Snippet.of(min(self.seconds, LENGTHS_SECONDS), PRESETS["bursts"])
        rows = {}
        for length in LENGTHS[:2] if self.quick else LENGTHS:
            found = speculating.retraction_by_length(snippet, length)
            full, demand = found["full"], found["on-demand"]
            batches = f"batches of {1e3 * length:g} ms" if length else "one by one"
            for name, each in found.items():
                rows[f"{batches}, {name}"] = _counts(each)
            rows[f"{batches}, full over on demand"] = (
                f"{full.retracted / max(1, demand.retracted):.1f} times taken back, "
                f"{full.total / max(1, demand.total):.1f} times touched"
            )
        return {
            f"Retraction over {snippet.seconds:g} s by length of batches (papers: 9.6)": rows
        }, []

    def slack(self) -> Found:
        found = ordering.slack_by_level(Snippet.of(self.seconds, PRESETS["lan"]))
        self._draw("slack", lambda path: plots.slack(found, path))
        rows = {}
        for level in sorted({each.level for each in found.values()}):
            mine = [each for each in found.values() if each.level == level]
            whole, part = [each.whole for each in mine], [each.disorder for each in mine]
            rows[f"level {level}"] = (
                f"{min(whole):.0f} to {max(whole):.0f} ms, "
                f"of which {min(part):.0f} to {max(part):.0f} ms for disorder"
            )
        return {"Slack by level": rows}, []

    def delays(self) -> Found:
        found = {name: ordering.delays(self.seconds, name) for name in ordering.WATCHED}
        self._draw("delays", lambda path: plots.delays(found, path))
        readings: Readings = {}
        for name, margins in found.items():
            rows = readings[f"Delays at {name} (papers: 5-45 ms, kicks 1-2 ms)"] = {}
            for margin, each in margins.items():
                rows[f"margin {margin:g}"] = (
                    f"{each.missed.sum():,} of {len(each.at):,} missed, the last after "
                    f"{max(each.at[each.missed], default=0):.1f} s; slack {each.slack[-1]:.1f} ms"
                )
            each = margins[0.0]
            for type in sorted(set(each.type.tolist())):
                mine = each.delay[each.of(type)]
                rows[type] = f"{mine.min():.1f} to {mine.max():.1f} ms"
        return readings, []

    def order(self) -> Found:
        snippet = Snippet.of(self.seconds, PRESETS["lan"])
        watch = ordering.disorder_by_level(snippet)
        rows = {
            f"level {level}": f"{watch.late[level] / count:.1%} of {count:,}"
            for level, count in sorted(watch.arrivals.items())
        }
        above = [level for level in watch.arrivals if level > 1]
        late, count = sum(watch.late[n] for n in above), sum(watch.arrivals[n] for n in above)
        rows["all but positions"] = f"{late / count:.1%} (papers: 9 %)"
        share = ordering.ordering_share(snippet)
        rows["CPU time of ordering units"] = f"{share:.0%} (papers: up to 20 %)"
        return {"Out of order (papers: over 95 % of all events)": rows}, []


def _counts(touched: Touched) -> str:
    return (
        f"{touched.retracted:,} outputs taken back, {touched.hits_retracted:,} of them hits, + "
        f"{touched.replayed:,} events handled again"
    )


def _least(trace: Trace, until: float) -> float:
    pairs = zip(trace.times, trace.attenuation, strict=True)
    return min((value for at, value in pairs if at < until), default=1.0)


NAMES = (
    "latency", "load", "adaptation", "slack", "delays", "order", "memory", "lengths", "equal",
    "retraction",
)  # fmt: skip
LONG = ("equal", "retraction")
"""These run only if they are named."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "names", nargs="*", choices=[[], *NAMES], metavar="NAME", help="what to run"
    )
    parser.add_argument("--seconds", type=float, default=65.0, help="length of the snippet")
    parser.add_argument("--minutes", type=float, default=45.0, help="of the match, for retraction")
    parser.add_argument("--pictures", type=Path, help="a folder for the figures")
    parser.add_argument("--live", action="store_true", help="by the wall clock")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    experiments = Experiments(
        seconds=min(options.seconds, 14.0) if options.quick else options.seconds,
        minutes=min(options.minutes, 0.25) if options.quick else options.minutes,
        live=options.live,
        pictures=options.pictures,
        quick=options.quick,
    )
    readings: Readings = {}
    targets: list[Target] = []
    for name in options.names or [name for name in NAMES if name not in LONG]:
        found, judged = getattr(experiments, name)()
        readings |= found
        targets += judged
    # A quick run is too short for conclusions.
    report([], [] if options.quick else targets, readings=readings, as_json=options.json)


if __name__ == "__main__":
    main()
