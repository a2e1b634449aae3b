"""What happens when there is too much to do: `python -m benchmarks.live [PART ...] [--spark]`.

A stream that arrives by the wall clock, as fast as it says, whether the engine keeps up or not. The
detector does some work per event. First, what attenuation 1 can handle without a pause is measured:
the *capacity*. Then:

* *Burst*: 15 % of the capacity, ten times that for 5 seconds, and 15 % again.
* *Overload*: 15 % of the capacity, then twice the capacity for three minutes.

Each runs with adaptive attenuation; the first 20 s of the overload also with attenuation 1, to
compare how much is handled. *Lag* is how long the newest event had waited when its batch was done.
Final results must be those of the same events fed without any hurry. In this process, an overload
ends with its schedule; on Spark, everything is read in the end, so it takes about twice as long.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.live import local
from benchmarks.live.course import Course, picture
from benchmarks.live.schedule import Phase, Schedule
from benchmarks.racing import Target
from betimes.model import readable

PARTS = ("burst", "overload")
PARTS_HELP = "what to run: burst, overload; both by default"
COMPARED = 20.0
"""Seconds of overload with attenuation 1: what it handles does not change any more."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=PARTS_HELP)
    parser.add_argument("--seconds", type=float, default=180.0, help="length of the overload")
    parser.add_argument("--calm", type=float, default=20.0, help="before and after the burst")
    parser.add_argument("--quick", action="store_true", help="a quick check, not a measurement")
    parser.add_argument("--spark", action="store_true", help="on Spark instead of in this process")
    parser.add_argument("--pictures", type=Path, help="a folder for pictures")
    options = parser.parse_args(arguments)
    calm, overload = (3.0, 5.0) if options.quick else (options.calm, options.seconds)
    where = "Spark" if options.spark else "this process"
    with on_spark() if options.spark else nullcontext(Live(local.capacity, local.run)) as live:
        rows, targets, courses = measure(live, options.parts or PARTS, calm, overload)
    console = Console(highlight=False)
    table = Table("reading", "value", title=f"Too much to do, in {where}")
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    for target in targets:
        console.print(f"{target.name}: {target.got:.2f}, wanted {target.wanted:.2f}")
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
        for name, course in courses.items():
            file = f"live-{'spark' if options.spark else 'local'}-{name}.png"
            picture(course, options.pictures / file, f"{name}, {where}")


class Live(NamedTuple):
    """A live loop, here or on Spark."""

    capacity: Callable[[], float]
    run: Callable[[str, Schedule, float | str], tuple[Course, set[str]]]


@contextmanager
def on_spark() -> Iterator[Live]:
    from benchmarks.live import spark

    with spark.session() as session:
        query = spark.Query(session)
        yield Live(query.capacity, query.run)


Measured = tuple[dict[str, str], list[Target], dict[str, dict[str, Course]]]


def measure(live: Live, parts: Sequence[str], calm: float, overload: float) -> Measured:
    """The capacity, and what happens beyond it."""
    say("capacity")
    most = live.capacity()
    rows, targets, courses = {"capacity": rate(most)}, list[Target](), {}
    if "burst" in parts:
        more, courses["burst"] = measure_burst(live, most, calm)
        rows |= more
        say("".join(f"  {name}: {value}\n" for name, value in rows.items()))
    if "overload" in parts:
        more, targets, courses["overload"] = measure_overload(live, most, calm, overload)
        rows |= more
    return rows, targets, courses


def measure_burst(live: Live, most: float, calm: float) -> tuple[dict[str, str], dict[str, Course]]:
    burst = Schedule([Phase(calm, 0.15 * most), Phase(5, 1.5 * most), Phase(calm, 0.15 * most)])
    bursting = checked(live, "adaptive", burst, "adaptive")
    return told_of_burst(bursting, calm, burst.arrived(calm)), {"adaptive": bursting}


def measure_overload(
    live: Live, most: float, calm: float, overload: float
) -> tuple[dict[str, str], list[Target], dict[str, Course]]:
    flood = Schedule([Phase(calm, 0.15 * most), Phase(overload, 2 * most)])
    drowning = checked(live, "adaptive", flood, "adaptive")
    short = Schedule([Phase(calm, 0.15 * most), Phase(min(overload, COMPARED), 2 * most)])
    buffering = checked(live, "attenuation 1", short, 1.0)
    share = drowning.pace(calm) / buffering.pace(calm)
    rows = {
        "overload: attenuation 1 after": backed_off(drowning, calm, flood.arrived(calm)),
        "overload: handled, adaptive": rate(drowning.pace(calm)),
        "overload: handled, attenuation 1": rate(buffering.pace(calm)),
        "overload: computing per event, both": ", ".join(
            seconds(course.cost(calm + 1, calm + overload)) for course in (drowning, buffering)
        ),
        "overload: resident before, at most": resident_of(drowning, calm),
    }  # fmt: skip
    targets = [Target("throughput in overload, against attenuation 1", 0.9, share)]
    return rows, targets, {"adaptive": drowning, "attenuation 1": buffering}


def checked(live: Live, name: str, schedule: Schedule, attenuation: float | str) -> Course:
    """A run whose results are those of the same events without any hurry."""
    say(f"{schedule.events:,} events in {schedule.seconds:.0f} s, {name}")
    course, standing = live.run(name, schedule, attenuation)
    if standing != local.truth(schedule, course.moments[-1].fed):
        raise AssertionError(f"{name}: the load has changed the results")
    return course


def say(what: str) -> None:
    """Tell what is done now: all of it takes minutes."""
    print(what, file=sys.stderr, flush=True)


def told_of_burst(course: Course, calm: float, first: int) -> dict[str, str]:
    """What a burst, which begins with event `first`, did, and how things came back."""
    before, end = course.during(calm / 2, calm), calm + 5
    usual = max((m.lag for m in before), default=0.0)
    back = course.back_after(end, usual)
    return {
        "burst: attenuation before": f"{before[-1].attenuation:.2f}" if before else "-",
        "burst: attenuation 1 after": backed_off(course, calm, first),
        "burst: largest lag before, and in all": (
            f"{seconds(usual)}, {seconds(max(m.lag for m in course.moments))}"
        ),
        "burst: lag as before, after": seconds(back),
        "burst: computing per event, until then": seconds(
            course.cost(calm + 1, end + (back or 0.0))
        ),
        "burst: latency before, during, at the end": ", ".join(
            seconds(course.latency(*span))
            for span in ((calm / 2, calm), (calm + 1, end), (end + calm / 2, end + calm))
        ),
        "burst: resident before, at most": resident_of(course, calm),
    }


def backed_off(course: Course, since: float, first: int) -> str:
    """When attenuation was 1, and in which batch with too much in it: on Spark, each is a span."""
    after = course.backed_off_after(since)
    if after is None:
        return "-"
    batches = [m for m in course.during(since, since + after) if m.fed > first]
    return f"{seconds(after)}, batch {len(batches) + 1}"


def resident_of(course: Course, calm: float) -> str:
    before = max((m.memory for m in course.during(0.0, calm)), default=0)
    return f"{before / 1e6:.0f} MB, {max(m.memory for m in course.moments) / 1e6:.0f} MB"


def rate(events: float) -> str:
    return f"{events:,.0f} events/s"


def seconds(value: float | None) -> str:
    return "-" if value is None else readable(1e6 * value)


if __name__ == "__main__":
    main()
