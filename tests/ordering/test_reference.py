"""`OrderingUnit`, fed in any batches, is `ReferenceUnit`, fed one event at a time: exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from betimes.model import PSEUDO, EventBatch
from betimes.ordering import NEVER, Handed, Ordered, OrderingUnit, SlackPolicy
from betimes.testing import ReferenceUnit
from betimes.testing.strategies import cut, disordered
from tests.engine.material import share

TYPES = ("A", "B", "C", PSEUDO)
NO_SKEW = 2**62


@dataclass(frozen=True)
class Arrival:
    type: str
    ts: int
    head_start: int = 0

    @property
    def notice(self) -> bool:
        return self.type == PSEUDO


@dataclass(frozen=True)
class Batch:
    arrivals: tuple[Arrival, ...]
    attenuation: float

    def columns(self) -> EventBatch:
        return EventBatch(
            np.array([a.ts for a in self.arrivals], np.int64),
            np.array([TYPES.index(a.type) for a in self.arrivals], np.int32),
            TYPES,
            head_start=np.array([a.head_start for a in self.arrivals], np.int64),
        )


@dataclass(frozen=True)
class Case:
    batches: tuple[Batch, ...]
    clock: tuple[str, ...] = ("A",)
    on: tuple[str, ...] | None = None
    max_skew: int = NO_SKEW
    slack: dict[str, Any] = field(default_factory=dict)

    def unit(self) -> OrderingUnit:
        return OrderingUnit(clock=self.clock, on=self.on, max_skew=self.max_skew, **self.slack)

    def reference(self) -> ReferenceUnit:
        policy = SlackPolicy.parse(**self.slack)
        return ReferenceUnit(clock=self.clock, on=self.on, policy=policy, max_skew=self.max_skew)


def policies() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "slack": st.sampled_from(["largest", "decaying", "quantile", 12]),
            "margin": st.sampled_from([0.5, 2.0]),
            "min_slack": st.integers(0, 10),
            "max_slack": st.integers(10, 30),
            "decay": st.sampled_from([None, 1, 20, 1000]),
            "max_late": st.sampled_from([0.0, 0.05, 0.3]),
        },
    )


@st.composite
def arrivals(draw: st.DrawFn, *, far: bool = True) -> list[Arrival]:
    """A stream in disorder with head starts, pseudo events and times far ahead."""
    events = draw(disordered(types=TYPES[:3], max_events=60))
    oddities = st.tuples(
        st.integers(0, max(0, len(events) - 1)),
        st.sampled_from(["ahead", "notice"] if far else ["notice"]),
        st.integers(0, 60),
    )
    heads = st.one_of(st.just(0), st.just(0), st.integers(0, 15))
    stream = [Arrival(e.type, e.ts, draw(heads)) for e in events]
    for at, kind, number in draw(st.lists(oddities, max_size=6)) if events else []:
        near = stream[at]
        if kind == "notice":
            stream.insert(at, Arrival(PSEUDO, max(0, near.ts - number)))
        else:
            stream.insert(at, Arrival(near.type, near.ts + 500 + number))
    return stream


@st.composite
def cases(
    draw: st.DrawFn, *, attenuations: tuple[float, ...] = (1.0, 1 / 3, 0.3, 0.0), far: bool = True
) -> Case:
    attenuation = draw(st.sampled_from(attenuations))
    batches = []
    for part in draw(cut(draw(arrivals(far=far)))):
        # Mostly it stays: a change needs some arrivals to show what it does.
        attenuation = draw(st.sampled_from((attenuation, attenuation, *attenuations)))
        batches.append(Batch(tuple(part), attenuation))
    return Case(
        tuple(batches),
        clock=draw(st.sampled_from([("A",), ("*",)])),
        on=draw(st.sampled_from([None, None, ("A", "B"), ("B", "C")])),
        max_skew=draw(st.sampled_from([100, 100, NO_SKEW])) if far else NO_SKEW,
        slack=draw(policies()),
    )


@dataclass
class Answer:
    """What happened on the arrivals of one batch, by arrival number."""

    clock: list[int] = field(default_factory=list)
    slack: list[int] = field(default_factory=list)
    released_at: dict[int, int] = field(default_factory=dict)
    settled_at: dict[int, int] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    rejected: list[tuple[str, int]] = field(default_factory=list)
    buffer: list[tuple[int, str]] = field(default_factory=list)
    delays: dict[str, int] = field(default_factory=dict)


def by_reference(unit: ReferenceUnit, batch: Batch, log: list[int]) -> Answer:
    unit.attenuation = batch.attenuation
    answer = Answer()
    for arrival in batch.arrivals:
        number = unit.arrivals
        row = unit.feed(
            arrival.type, arrival.ts, head_start=arrival.head_start, notice=arrival.notice
        )
        answer.clock.append(NEVER if row.clock is None else row.clock)
        answer.slack.append(row.slack)
        released = [e[1] for e in row.released]
        replayed = [e[1] for e in row.replayed]
        if replayed:
            assert replayed[0] == number
            hand_out(log, again=replayed[1:], anew=replayed)
        hand_out(log, again=[], anew=released)
        for e in released + replayed[:1]:
            answer.released_at[e] = number
        answer.released += released
        answer.settled_at |= {e[1]: number for e in row.settled}
        answer.late += [number] if row.late else []
        answer.rejected += [(e[2], e[0]) for e in row.rejected]
    answer.buffer = [(e[0], e[2]) for e in unit.buffer]
    answer.delays = {type: delay for type, delay in unit.learned.delays.items() if type}
    return answer


def by_unit(unit: OrderingUnit, batch: Batch) -> Answer:
    unit.attenuation = batch.attenuation
    ordered = unit.feed(batch.columns())
    return Answer(
        clock=ordered.clock.tolist(),
        slack=ordered.slack.tolist(),
        released_at=places(ordered.released) | places(ordered.replayed),
        settled_at=places(ordered.settled),
        released=ordered.released.rows.tolist(),
        late=ordered.late.tolist(),
        rejected=[(e.type, e.ts) for e in ordered.rejected],
        buffer=[(e.ts, e.type) for e in unit.buffer],
        delays=unit.stats.delays,
    )


def places(handed: Handed) -> dict[int, int]:
    pairs = zip(handed.rows.tolist(), handed.at.tolist(), strict=True)
    return {row: at for row, at in pairs if at >= 0}


def follow(unit: OrderingUnit, batch: Batch, log: list[int]) -> Ordered:
    """Feed a batch and take what comes, as `Ordered` says: first the replayed, then the released.

    `log` is what the detector has seen in the end.
    """
    unit.attenuation = batch.attenuation
    ordered = unit.feed(batch.columns())
    again = ordered.replayed.rows[ordered.replayed.at < 0].tolist()
    hand_out(log, again=again, anew=ordered.replayed.rows.tolist())
    hand_out(log, again=[], anew=ordered.released.rows.tolist())
    return ordered


def hand_out(log: list[int], *, again: list[int], anew: list[int]) -> None:
    """Keep book like a detector: go back before the events that come again, then go on."""
    for row in again:
        log.remove(row)
    log += anew


def side_by_side(case: Case) -> Iterator[tuple[Answer, Answer]]:
    """Batch by batch, what the reference answers and what the unit answers."""
    reference, unit = case.reference(), case.unit()
    log: list[int] = []
    for batch in case.batches:
        yield by_reference(reference, batch, log), by_unit(unit, batch)


@given(cases())
@share(1)
def test_any_cut_gives_the_places_the_path_and_the_side_rows_of_single_feeding(case: Case) -> None:
    for expected, got in side_by_side(case):
        assert replace(got, released=[]) == replace(expected, released=[])


@given(cases(attenuations=(1.0,)))
@share(0.5)
def test_pure_buffering_hands_out_in_the_order_of_single_feeding(case: Case) -> None:
    for expected, got in side_by_side(case):
        assert got == expected


@given(cases())
@share(0.5)
def test_a_detector_that_goes_back_for_replays_has_seen_what_single_feeding_shows(
    case: Case,
) -> None:
    reference, unit = case.reference(), case.unit()
    expected: list[int] = []
    got: list[int] = []
    late = 0
    for batch in case.batches:
        late += len(by_reference(reference, batch, expected).late)
        follow(unit, batch, got)
        assert sorted(got) == sorted(expected)
        # Late events of one batch may be put in order among the others of the batch.
        assert late or got == expected


@given(cases())
def test_statistics_count_what_was_handed_out(case: Case) -> None:
    unit, total = case.unit(), Answer()
    for batch in case.batches:
        answer = by_unit(unit, batch)
        total.released_at |= answer.released_at
        total.settled_at |= answer.settled_at
        total.late += answer.late
        total.rejected += answer.rejected
    stats = unit.stats
    assert stats.arrived == sum(len(batch.arrivals) for batch in case.batches)
    assert stats.released == len(total.released_at)
    assert stats.settled == len(total.settled_at)
    assert stats.late == len(total.late)
    assert stats.rejected == len(total.rejected)
    assert stats.buffered == len(unit.buffer)
    assert sum(stats.types.values()) == stats.arrived


# Without the reference: what must hold whatever the algorithm.


def wanted(case: Case) -> list[int]:
    """Arrival numbers of the events that the unit is to hand out."""
    every = [arrival for batch in case.batches for arrival in batch.arrivals]
    return [
        number
        for number, arrival in enumerate(every)
        if not arrival.notice and (case.on is None or arrival.type in case.on)
    ]


@given(cases())
@share(0.5)
def test_every_event_is_released_once_and_settled_once_or_rejected(case: Case) -> None:
    unit = case.unit()
    released: list[int] = []
    settled: list[int] = []
    n_rejected = 0
    for batch in case.batches:
        unit.attenuation = batch.attenuation
        ordered = unit.feed(batch.columns())
        released += ordered.released.rows.tolist()
        released += ordered.replayed.rows[ordered.replayed.at >= 0].tolist()
        settled += ordered.settled.rows.tolist()
        n_rejected += sum(case.on is None or e.type in case.on for e in ordered.rejected)
    rest = unit.finish()
    released += rest.released.rows.tolist()
    settled += rest.settled.rows.tolist()
    assert len(set(released)) == len(released)
    assert sorted(released) == sorted(settled)
    assert set(released) <= set(wanted(case))
    assert len(released) == len(wanted(case)) - n_rejected
    assert len(unit.buffer) == 0


@given(cases(attenuations=(1.0,), far=False))
@share(0.5)
@example(Case((Batch((Arrival("A", 5), Arrival("A", 3), Arrival("A", 9)), 1.0),)))
def test_pure_buffering_without_late_events_gives_the_sorted_stream(case: Case) -> None:
    unit = case.unit()
    handed: list[tuple[int, int]] = []
    late: set[int] = set()
    for batch in case.batches:
        ordered = unit.feed(batch.columns())
        late |= set(ordered.late.tolist())
        handed += zip(ordered.released.ts.tolist(), ordered.released.rows.tolist(), strict=True)
    rest = unit.finish().released
    handed += zip(rest.ts.tolist(), rest.rows.tolist(), strict=True)
    punctual = [pair for pair in handed if pair[1] not in late]
    assert punctual == sorted(punctual)
    every = [arrival for batch in case.batches for arrival in batch.arrivals]
    assert sorted(handed) == sorted((every[number].ts, number) for number in wanted(case))


@given(cases(attenuations=(1 / 3, 0.3, 0.0), far=False))
@share(0.5)
def test_speculation_without_late_events_settles_in_order_what_a_sort_gives(case: Case) -> None:
    unit = case.unit()
    log: list[int] = []
    settled: list[int] = []
    late = 0
    for batch in case.batches:
        ordered = follow(unit, batch, log)
        settled += ordered.settled.rows.tolist()
        late += len(ordered.late)
    rest = unit.finish()
    hand_out(log, again=[], anew=rest.released.rows.tolist())
    settled += rest.settled.rows.tolist()
    if not late:
        every = [arrival for batch in case.batches for arrival in batch.arrivals]
        in_order = sorted(wanted(case), key=lambda number: (every[number].ts, number))
        assert log == in_order
        assert settled == in_order


def test_raising_the_attenuation_to_1_replays_nothing_that_was_not_handed_out_before() -> None:
    unit = OrderingUnit(clock="A")
    log: list[int] = []
    follow(unit, Batch((Arrival("A", 0), Arrival("A", 10)), 0.5), log)
    follow(unit, Batch((Arrival("A", 11), Arrival("B", 10)), 1.0), log)
    assert log == [0, 1, 3, 2]


@pytest.mark.parametrize("slack", ["largest", "decaying", "quantile", 0])
@pytest.mark.parametrize("clock", [("A",), ("*",)])
@pytest.mark.parametrize("seed", range(3))
def test_speculation_ends_at_the_same_arrival_however_the_stream_is_cut(
    slack: str | int, clock: tuple[str, ...], seed: int
) -> None:
    """Long enough for the unit to see that speculation is over, and to begin it again."""
    r = random.Random(seed)
    delays = [r.randrange(400) if r.random() < 0.2 else 0 for _ in range(4_000)]
    arrived = sorted(range(4_000), key=lambda number: 5 * number + delays[number])
    stream = [Arrival("B" if delays[n] else "A", 5 * n) for n in arrived]
    attenuations = [0.0, 1.0, 1.0, 0.3, 1.0]
    parts = [stream[low : low + 800] for low in range(0, 4_000, 800)]
    batches = [
        Batch(tuple(part[low : low + width]), attenuation)
        for part, attenuation in zip(parts, attenuations, strict=True)
        for width in [r.choice([37, 800])]
        for low in range(0, 800, width)
    ]
    case = Case(tuple(batches), clock=clock, slack={"slack": slack})
    for expected, got in side_by_side(case):
        assert replace(got, released=[]) == replace(expected, released=[])


def test_leaving_speculation_takes_no_more_steps_than_speculation() -> None:
    """Each step costs as much as what is out; there must not be one per event."""
    unit = OrderingUnit(clock="A", attenuation=0.0, min_slack=10_000)
    stream = EventBatch(np.arange(20_000), np.zeros(20_000, np.int32), ("A",))
    unit.feed(stream.part(0, 5_000))
    unit.attenuation = 1.0
    with patch.object(unit._loop, "run", wraps=unit._loop.run) as run:
        for low in range(5_000, 20_000, 5_000):
            unit.feed(stream.part(low, low + 5_000))
    assert run.call_count <= 6
    assert unit.stats.settled == 10_000


def test_quantile_with_suspects_replays_nothing_that_was_not_handed_out_before() -> None:
    unit = OrderingUnit(clock="A", slack="quantile", max_skew=100)
    log: list[int] = []
    follow(unit, Batch((Arrival("B", 0), Arrival("A", 500), Arrival("A", 0)), 0.5), log)
    assert log == [0, 2, 1]


def test_learning_the_clock_replays_nothing_that_was_not_handed_out_before() -> None:
    unit = OrderingUnit(clock=None)
    # The clock is chosen after 256 events, inside the batch; the last event comes late.
    stream = [Arrival("A", 10 * number) for number in range(256)] + [Arrival("A", 2545)]
    log: list[int] = []
    follow(unit, Batch(tuple(stream), 0.0), log)
    assert log == [*range(255), 256, 255]


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from([0, 1, 2**61, 2**62 - 1]))),
    st.sampled_from(["largest", "decaying", "quantile"]),
    st.sampled_from([3_600_000_000, NO_SKEW]),
    st.sampled_from([1.0, 0.5]),
    st.data(),
)
def test_times_of_100_000_years_are_times_like_any_other(
    events: list[tuple[str, int]],
    slack: str,
    max_skew: int,
    attenuation: float,
    data: st.DataObject,
) -> None:
    parts = data.draw(cut([Arrival(type, ts) for type, ts in events]))
    batches = tuple(Batch(tuple(part), attenuation) for part in parts)
    case = Case(batches, max_skew=max_skew, slack={"slack": slack})
    for expected, got in side_by_side(case):
        assert replace(got, released=[]) == replace(expected, released=[])
