"""A live stream with too much to do: a real engine, the wall clock, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from subprocess import PIPE

import pytest
from benchmarks.live import local
from benchmarks.live.__main__ import PARTS, Live, checked, measure
from benchmarks.live.course import Course, Moment
from benchmarks.live.memory import workers
from benchmarks.live.schedule import Phase, Schedule

CALM = 3.0


@pytest.fixture(scope="module")
def flooded() -> Course:
    """Hardly anything to do, and then more than the machine can: the results are checked."""
    most = local.capacity()
    schedule = Schedule([Phase(CALM, 0.02 * most), Phase(2.0, 3 * most)])
    return checked(Live(local.capacity, local.run), "adaptive", schedule, "adaptive")


def test_with_time_to_spare_it_speculates(flooded: Course) -> None:
    assert min(m.attenuation for m in flooded.during(0.0, CALM)) < 1.0


def test_with_too_much_to_do_it_stops_speculating(flooded: Course) -> None:
    assert flooded.moments[-1].attenuation == 1.0
    assert flooded.moments[-1].busy > 0.9


def test_what_came_back_and_when() -> None:
    course = Course("made up")
    lags = [0.0, 0.0, 2.0, 1.0, 0.05, 0.0]
    for second, lag in enumerate(lags):
        value = 1.0 if lag > 1 else 0.5
        course.moments.append(Moment(second, 10 * second, lag, value, 0.9, cpu=second / 2))
    assert course.backed_off_after(1.5) == 0.5
    assert course.backed_off_after(2.5) is None
    assert course.back_after(2.5, 0.1) == 1.5
    assert course.back_after(2.5, 1.0) == 0.5
    assert course.back_after(6.0, 0.1) is None
    assert course.pace(1.0) == 10.0
    assert course.cost(1.0, 4.0) == 0.05


def made_up(name: str, schedule: Schedule, _: float | str) -> tuple[Course, set[str]]:
    """A batch per second; the second one after the burst began is handled with attenuation 1."""
    course = Course(name)
    for second in range(1, round(schedule.seconds) + 1):
        fed, value = schedule.arrived(second), 1.0 if second > 5 else 0.5
        course.moments.append(Moment(second - 0.5, fed, 0.1, value, 0.9, 0.2, 10**6, second / 10))
    return course, local.truth(schedule, schedule.events)


@pytest.mark.parametrize("part", PARTS)
def test_what_a_part_tells(part: str) -> None:
    rows, targets, courses = measure(Live(lambda: 100.0, made_up), [part], 4.0, 3.0)
    assert rows[f"{part}: attenuation 1 after"] == "1.5 s, batch 2"
    assert all(name.startswith(part) for name in rows if name != "capacity")
    assert [target.got for target in targets] == [1.0] * (part == "overload")
    assert list(courses) == [part]


def test_a_schedule_says_what_arrives_when() -> None:
    schedule = Schedule([Phase(2.0, 10.0), Phase(1.0, 100.0)])
    assert [schedule.arrived(time) for time in (1.0, 2.0, 2.5, 9.0)] == [10, 20, 70, 120]
    assert schedule.events == 120
    assert len(schedule.batch(5, 25)) == len(schedule.table(5, 25)) == 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells about other processes")
def test_the_largest_worker_is_the_largest_python_below() -> None:
    code = "import sys; block = b'x' * int(sys.argv[1]); print(); input()"
    others = workers()  # other tests of this process may have started some
    for size in (others + 100_000_000, others + 200_000_000):
        command = [sys.executable, "-c", code, str(size)]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert size < workers() < size + 100_000_000
            process.communicate(b"\n")
