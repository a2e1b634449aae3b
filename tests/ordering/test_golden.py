"""Golden transcripts: what the papers draw and tell, arrival by arrival.

A line is: arrival | clock | slack | released | replayed | settled | buffer.
"""

from __future__ import annotations

import re

import pytest

from betimes.model import Event, EventBatch
from betimes.ordering import Handed, OrderingUnit

# Paper *slack*, figures 3(b) and 4 with the text of section II-E: A sets the clock. E20 comes too
# early and waits; C12 is still in time.
CLOCK_A = """
    A0  |  0 | 0 | A0       | | A0       |
    A2  |  2 | 0 | A2       | | A2       |
    C1  |  2 | 0 |          | |          | C1
    A4  |  4 | 3 | C1       | | C1       | A4
    B3  |  4 | 3 |          | |          | B3 A4
    C5  |  4 | 3 |          | |          | B3 A4 C5
    A6  |  6 | 3 | B3       | | B3       | A4 C5 A6
    B10 |  6 | 3 |          | |          | A4 C5 A6 B10
    A11 | 11 | 3 | A4 C5 A6 | | A4 C5 A6 | B10 A11
    B14 | 11 | 3 |          | |          | B10 A11 B14
    E20 | 11 | 3 |          | |          | B10 A11 B14 E20
    C12 | 11 | 3 |          | |          | B10 A11 C12 B14 E20
    A15 | 15 | 3 | B10 A11 C12 | | B10 A11 C12 | B14 A15 E20
"""

# Section II-D, first problem, "clk grows unexpectedly": every event sets the clock, E20 drives it
# on, and C12 comes after B14 has been handed out.
EVERY_TYPE = """
    A0  |  0 | 0 | A0       | | A0       |
    A2  |  2 | 0 | A2       | | A2       |
    C1  |  2 | 0 |          | |          | C1
    A4  |  4 | 3 | C1       | | C1       | A4
    B3  |  4 | 3 |          | |          | B3 A4
    C5  |  5 | 3 |          | |          | B3 A4 C5
    A6  |  6 | 3 | B3       | | B3       | A4 C5 A6
    B10 | 10 | 3 | A4 C5 A6 | | A4 C5 A6 | B10
    A11 | 11 | 3 |          | |          | B10 A11
    B14 | 14 | 3 | B10 A11  | | B10 A11  | B14
    E20 | 20 | 3 | B14      | | B14      | E20
    C12 | 20 | 3 |          | |          | C12 E20
    A21 | 21 | 9 | C12      | | C12      | E20 A21
"""

# Section II-D, second problem, with the paper's own figures: B8 between A6 and B10, C7 between B10
# and A11. The slack becomes 11 - 7 = 4. The paper tells this of a unit that would have handed out
# A6 and B8 with the old slack of 3; Algorithm 1 measures before it relays, so C7 just makes it.
GROWING_AS_TOLD = """
    A0  |  0 | 0 | A0       | | A0       |
    A2  |  2 | 0 | A2       | | A2       |
    C1  |  2 | 0 |          | |          | C1
    A4  |  4 | 3 | C1       | | C1       | A4
    B3  |  4 | 3 |          | |          | B3 A4
    C5  |  5 | 3 |          | |          | B3 A4 C5
    A6  |  6 | 3 | B3       | | B3       | A4 C5 A6
    B8  |  8 | 3 | A4 C5    | | A4 C5    | A6 B8
    B10 | 10 | 3 | A6       | | A6       | B8 B10
    C7  | 10 | 3 |          | |          | C7 B8 B10
    A11 | 11 | 4 | C7       | | C7       | B8 B10 A11
"""

# The same problem where it does harm: C7 comes one event later, after A11 has let B8 pass.
GROWING_TOO_LATE = """
    A0  |  0 | 0 | A0          | | A0          |
    A2  |  2 | 0 | A2          | | A2          |
    C1  |  2 | 0 |             | |             | C1
    A4  |  4 | 3 | C1          | | C1          | A4
    B3  |  4 | 3 |             | |             | B3 A4
    C5  |  4 | 3 |             | |             | B3 A4 C5
    A6  |  6 | 3 | B3          | | B3          | A4 C5 A6
    B8  |  6 | 3 |             | |             | A4 C5 A6 B8
    B10 |  6 | 3 |             | |             | A4 C5 A6 B8 B10
    A11 | 11 | 3 | A4 C5 A6 B8 | | A4 C5 A6 B8 | B10 A11
    C7  | 11 | 3 |             | |             | C7 B10 A11
    A12 | 12 | 5 | C7          | | C7          | B10 A11 A12
"""

# Paper *speculation*, figure 7 and the text of section 4.1: attenuation 1/3.
FIGURE_7 = """
    A0  |  0 | 0 | A0       |        |          | A0
    A2  |  2 | 0 | A2       |        | A0       | A2
    C1  |  2 | 0 |          | C1 A2  |          | C1 A2
    A3  |  3 | 2 |          |        | C1       | A2 A3
    B4  |  3 | 2 |          |        |          | A2 A3 B4
    A6  |  6 | 2 | A3 B4    |        | A2 A3 B4 | A6
    C5  |  6 | 2 | C5       |        |          | C5 A6
    B8  |  6 | 2 |          |        |          | C5 A6 B8
    C7  |  6 | 2 |          |        |          | C5 A6 C7 B8
    A11 | 11 | 6 | A6 C7 B8 |        | C5       | A6 C7 B8 A11
    B10 | 11 | 6 |          |        |          | A6 C7 B8 B10 A11
    A12 | 12 | 6 | B10      |        | A6       | C7 B8 B10 A11 A12
    C9  | 12 | 6 |          | C9 B10 |          | C7 B8 C9 B10 A11 A12
"""

TRANSCRIPTS = {
    "figure 4, clock A": (CLOCK_A, {"clock": "A"}, ["C1"]),
    "clk grows unexpectedly": (EVERY_TYPE, {"clock": "*"}, ["C1", "C12"]),
    "K grows unexpectedly, as told": (GROWING_AS_TOLD, {"clock": "*"}, ["C1"]),
    "K grows unexpectedly, too late": (GROWING_TOO_LATE, {"clock": "A"}, ["C1", "C7"]),
    "figure 7": (FIGURE_7, {"clock": "A", "attenuation": 1 / 3}, []),
}

every_transcript = pytest.mark.parametrize(
    ("text", "options", "late"), TRANSCRIPTS.values(), ids=TRANSCRIPTS.keys()
)


def event(name: str) -> Event:
    type, ts = re.fullmatch(r"([A-Z])(\d+)", name).groups()  # type: ignore[union-attr]
    return Event(type, int(ts))


def names(events: EventBatch) -> list[str]:
    return [f"{e.type}{e.ts}" for e in events]


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


@every_transcript
def test_each_arrival_does_what_the_transcript_says(
    text: str, options: dict[str, float | str], late: list[str]
) -> None:
    unit = OrderingUnit(**options)  # type: ignore[arg-type]
    got, too_late = [], []
    for number, row in enumerate(rows(text)):
        ordered = unit.feed(event(row[0]))
        handed = (ordered.released, ordered.replayed, ordered.settled)
        columns = [" ".join(names(h.events)) for h in handed]
        got.append(
            [row[0], str(unit.stats.clock), str(unit.stats.slack), *columns,
             " ".join(names(unit.buffer))]
        )  # fmt: skip
        assert set(ordered.late.tolist()) <= {number}
        too_late += [row[0]] * len(ordered.late)
    assert got == rows(text)
    assert too_late == late


@every_transcript
def test_the_whole_stream_at_once_gives_the_same_hand_outs(
    text: str, options: dict[str, float | str], late: list[str]
) -> None:
    unit = OrderingUnit(**options)  # type: ignore[arg-type]
    stream = [row[0] for row in rows(text)]
    ordered = unit.feed([event(name) for name in stream])
    assert [str(clock) for clock in ordered.clock.tolist()] == [row[1] for row in rows(text)]
    assert [str(slack) for slack in ordered.slack.tolist()] == [row[2] for row in rows(text)]
    assert [stream[number] for number in ordered.late.tolist()] == late
    for number, row in enumerate(rows(text)):
        # A replay inside one batch is no replay: the event only comes out at its own arrival.
        here = [row[0]] if row[4] else row[3].split()
        assert [n for n, at in places(ordered.released) if at == number] == here
        assert [n for n, at in places(ordered.settled) if at == number] == row[5].split()
    assert names(unit.buffer) == rows(text)[-1][-1].split()


def places(handed: Handed) -> list[tuple[str, int]]:
    return list(zip(names(handed.events), handed.at.tolist(), strict=True))


def test_an_event_with_a_far_off_time_hurts_only_the_any_event_clock() -> None:
    stream = [row[0] for row in rows(CLOCK_A)]
    for clock, in_order in (("A", True), ("*", False)):
        unit = OrderingUnit(clock=clock)
        handed = names(unit.feed([event(name) for name in stream]).released.events)
        handed += names(unit.finish().released.events)
        after_start = [event(name).ts for name in handed if event(name).ts > 1]
        assert (after_start == sorted(after_start)) is in_order, clock
