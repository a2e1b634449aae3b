"""Detectors per batch that fail on columns, and columns they cannot use: named, counted, mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from betimes.engine import Engine, Hierarchy
from betimes.model import Derived, Event, EventBatch, EventError, OptionError
from betimes.model.change import fold
from betimes.model.detector import DetectorError
from betimes.testing.oracle import oracle
from tests.engine.material import flat, other, tick
from tests.engine.slicing import in_columns, row_by_row

every_attenuation = pytest.mark.parametrize("attenuation", [1.0, 0.3, 0.0])
every_batch = pytest.mark.parametrize("batch", [1, 7, 100])


def made_of(detector: Any, *, on: Any = ("A", "B")) -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(detector, on=on, emits=("made", "else"), name="culprit")
    return hierarchy


def table(events: list[Event]) -> pa.Table:
    return EventBatch.from_rows(events).to_arrow()


def run(engine: Engine, stream: list[Event], batch: int = 100) -> Any:
    parts = [table(stream[low : low + batch]) for low in range(0, len(stream), batch)]
    return fold(flat([*(engine.feed(part) for part in parts), engine.finish()]))


class FailsAt:
    """Numbers events; fails where it is told to, after it has begun to change its state."""

    def __init__(self, *times: int) -> None:
        self.times = times
        self.n = 0

    def on_batch(self, batch: EventBatch) -> Derived:
        self.n += len(batch)
        bad = np.flatnonzero(np.isin(batch.ts, self.times))
        if len(bad):
            raise ValueError(f"no {batch.ts[bad[0]]}, please")
        number = self.n - len(batch) + 1 + np.arange(len(batch))
        return Derived("made", rows=np.arange(len(batch)), payload={"n": number})


TICKS = [tick(ts, v=ts) for ts in range(30)]
DISORDERED = [tick(ts, v=ts) for ts in (0, 1, 5, 2, 9, 3, 4, 12, 8, 20, 17, 40)]


@every_attenuation
@every_batch
def test_an_error_names_the_event_the_detector_and_its_state(
    attenuation: float, batch: int
) -> None:
    engine = in_columns(made_of(FailsAt(13)), attenuation=attenuation)
    with pytest.raises(DetectorError, match="no 13, please") as caught:
        run(engine, TICKS, batch)
    for part in ("'culprit' failed at", "type='A', ts=13, payload={'v': 13}", "'n': 14"):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


@every_attenuation
@every_batch
@pytest.mark.parametrize("times", [(13,), (0,), (29,), (3, 4, 5), (2, 12, 20)])
def test_only_the_events_at_which_it_fails_are_skipped_and_counted(
    attenuation: float, batch: int, times: tuple[int, ...]
) -> None:
    for snapshots in (1, 4, 1000):
        options: dict[str, Any] = {"attenuation": attenuation, "snapshots": snapshots}
        engine = in_columns(made_of(FailsAt(*times)), errors="skip", **options)
        sound = [event for event in TICKS if event.ts not in times]
        assert run(engine, TICKS, batch) == oracle(made_of(FailsAt()), sound)
        assert engine.stats["culprit"].errors == len(times)
        rows = row_by_row(made_of(FailsAt(*times)), errors="skip", **options)
        assert run(rows, TICKS, batch) == oracle(made_of(FailsAt()), sound)
        assert rows.stats["culprit"].errors == len(times)


@every_attenuation
@every_batch
def test_skipping_works_in_disorder(attenuation: float, batch: int) -> None:
    options: dict[str, Any] = {"attenuation": attenuation, "errors": "skip", "min_slack": 20}
    engine = in_columns(made_of(FailsAt(3, 8)), **options)
    sound = [event for event in DISORDERED if event.ts not in (3, 8)]
    assert run(engine, DISORDERED, batch) == oracle(made_of(FailsAt()), sound)
    assert engine.stats["culprit"].errors == 2
    rows = row_by_row(made_of(FailsAt(3, 8)), **options)
    assert run(rows, DISORDERED, batch) == oracle(made_of(FailsAt()), sound)


class NeedsOrder:
    """Fails if it is handed an end before its beginning."""

    def __init__(self) -> None:
        self.begun = 0

    def on_batch(self, batch: EventBatch) -> Derived:
        ends = []
        for row, event in enumerate(batch):
            self.begun += 1 if event.type == "B" else -event["end"]
            if self.begun < 0:
                raise ValueError("an end without a beginning")
            if event.type == "A" and event["end"]:
                ends.append(row)
        return Derived("made", rows=ends)


NEEDS_ORDER = [tick(1, end=0), tick(5, end=1), other(3, end=0), tick(9, end=0), tick(20, end=0)]


@every_batch
@pytest.mark.parametrize("errors", ["stop", "skip"])
def test_a_failure_that_a_later_arrival_mends_is_none(batch: int, errors: str) -> None:
    engine = in_columns(made_of(NeedsOrder), attenuation=0.0, min_slack=5, errors=errors)
    assert run(engine, NEEDS_ORDER, batch) == oracle(made_of(NeedsOrder), NEEDS_ORDER)
    assert engine.stats["culprit"].errors == 0


@pytest.mark.parametrize("errors", ["stop", "skip"])
def test_a_failure_that_is_not_certain_yet_survives_a_restart(errors: str) -> None:
    options: dict[str, Any] = {
        "attenuation": 0.0, "min_slack": 5, "errors": errors, "retention": 0,
    }  # fmt: skip
    first, second = (in_columns(made_of(FailsAt(3)), **options) for _ in range(2))
    first.feed(table([tick(ts) for ts in (1, 2, 3, 4)]))
    second.restore(first.checkpoint())
    if errors == "stop":
        with pytest.raises(DetectorError, match="no 3, please"):
            second.feed([tick(30), tick(60)])
    else:
        second.feed([tick(30), tick(60)])
        assert second.stats["culprit"].errors == 1


def test_a_failure_is_counted_once_also_across_a_restart() -> None:
    options: dict[str, Any] = {"attenuation": 1.0, "snapshots": 1000, "errors": "skip"}
    first, second = (in_columns(made_of(FailsAt(3, 40)), **options) for _ in range(2))
    first.feed(table([tick(ts, v=ts) for ts in range(30)]))
    assert first.stats["culprit"].errors == 1
    second.restore(first.checkpoint())
    second.feed(table([tick(ts, v=ts) for ts in range(30, 60)]))
    assert second.stats["culprit"].errors == 2, "the segment is handed over again, with 3 in it"


# What it makes


def returning(make: Callable[[EventBatch], Any]) -> Any:
    class Detector:
        def on_batch(self, batch: EventBatch) -> Any:
            return make(batch)

    return Detector


@every_attenuation
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b: Derived("made", rows=[len(b)]), "failed.*to be rows of the batch, which has 1"),
        (
            lambda b: Derived("made", rows=[0, 0, -1]),  # noqa: ARG005
            "failed.*rows of 'made' events to be 0 or more and in ascending order",
        ),
        (
            lambda b: Derived("made", rows=[0], ts=[1, 2]),  # noqa: ARG005
            "failed.*expected 1 values in 'ts', one per row, got 2",
        ),
        (lambda b: Derived("unknown", rows=[0]), "made a 'unknown' event at .*add the type"),  # noqa: ARG005
        (lambda b: Derived("made", rows=[0], ts=[-4]), "with the time -4; expected whole"),  # noqa: ARG005
        (lambda b: [Event("unknown", 3)], "made a 'unknown' event at 3"),  # noqa: ARG005
        (lambda b: ["no event"], "to make Event objects, got 'no event'"),  # noqa: ARG005
        (lambda b: 5, "failed at .*'int' object is not iterable"),  # noqa: ARG005
        (
            lambda b: Derived("made", rows=[0], payload={"v": [object()]}),  # noqa: ARG005
            "'culprit' made a 'made' event at .*cannot be written",
        ),
    ],
)
def test_what_it_must_not_make_is_refused(attenuation: float, make: Any, message: str) -> None:
    with pytest.raises(DetectorError, match=message) as caught:
        run(in_columns(made_of(returning(make)), attenuation=attenuation), TICKS)
    assert "'culprit'" in str(caught.value)


def test_a_state_that_cannot_be_saved_is_named() -> None:
    class Holds:
        def on_batch(self, batch: EventBatch) -> None:
            self.rows = (row for row in range(len(batch)))

    with pytest.raises(DetectorError, match="the state of detector 'culprit' cannot be snapshott"):
        run(in_columns(made_of(Holds)), TICKS)


# What it reads


class Sums:
    columns = ("v", "w")

    def on_batch(self, batch: EventBatch) -> Derived:
        total = batch.numbers("v") + batch.numbers("w")
        return Derived("made", rows=np.arange(len(batch)), payload={"sum": total})


def test_a_declared_column_that_is_missing_is_named_and_harms_nothing() -> None:
    engine = in_columns(made_of(Sums, on="A"), attenuation=1.0)
    message = (
        r"detector 'culprit' declares columns=\('v', 'w'\), but .*has no 'w'.*; add the column"
    )
    with pytest.raises(EventError, match=message):
        engine.feed(table([tick(1, v=1)]))
    with pytest.raises(EventError, match=message):
        engine.feed([tick(1, v=1, w=1), tick(2, v=1)])
    sound = [tick(ts, v=ts, w=1) for ts in range(4)]
    assert run(engine, [*sound, other(9, u=1)]) == oracle(made_of(Sums, on="A"), sound)


def test_a_column_of_events_that_it_does_not_take_may_be_missing() -> None:
    engine = in_columns(made_of(Sums, on="B"), attenuation=1.0)
    changes = [*engine.feed([tick(1), other(2, v=1, w=2, u=0), tick(9)]), *engine.finish()]
    assert [change.payload for change in changes] == [{"sum": 3}]
    assert not in_columns(made_of(Sums, on="B")).feed(table([tick(1, u=1)]))


@pytest.mark.parametrize("columns", ["x", 5, ("x", 5)])
def test_columns_must_be_names(columns: Any) -> None:
    class Reads:
        def on_batch(self, batch: EventBatch) -> None: ...

    Reads.columns = columns  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=r"columns of a per-batch detector.*got columns="):
        made_of(Reads)


def test_tables_of_different_columns_can_follow_each_other() -> None:
    engine = in_columns(made_of(returning(lambda b: Derived("made", rows=[len(b) - 1]))))
    engine.feed(table([tick(1, v=1), tick(2, v=2)]))
    engine.feed(table([tick(3, w="x"), other(2, v=0.5, w="y")]))
    engine.feed(table([tick(3, v="text")]))
    engine.feed([tick(30, v=[1, 2])])
    assert engine.finish() is not None


# A clock that is absurd


@every_attenuation
@every_batch
def test_clock_events_far_ahead_are_told_with_their_payload(attenuation: float, batch: int) -> None:
    engine = in_columns(made_of(FailsAt()), attenuation=attenuation, max_skew=100)
    stream = [tick(ts, v=ts) for ts in (1, 2, 3, 4, 5000, 5, 6, 7)]
    parts = [table(stream[low : low + batch]) for low in range(0, len(stream), batch)]
    changes = flat([*(engine.feed(part) for part in parts), engine.finish()])
    told = [change.payload for change in changes if change.type == "rejected"]
    assert told == [{"v": 5000, "event": "A"}]
    sound = [event for event in stream if event.ts != 5000]
    assert fold(changes) == oracle(made_of(FailsAt()), sound)
    assert engine.rejected == 1
