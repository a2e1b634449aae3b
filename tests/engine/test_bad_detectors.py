"""Detectors that fail, and input they cannot use: named, counted, never lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from betimes.engine import Calibration, Engine, Hierarchy
from betimes.model import BetimesError, Event, EventBatch, EventError, OptionError, StreamEndedError
from betimes.model.change import Change, fold
from betimes.model.detector import DetectorError
from betimes.testing.oracle import oracle
from tests.engine.material import Count, flat, one_by_one, other, tick

every_attenuation = pytest.mark.parametrize("attenuation", [1.0, 0.3, 0.0])
TICKS = [tick(ts) for ts in range(10)]


def made_of(detector: Any, *, on: Any = ("A", "B"), by: str | None = None) -> Hierarchy:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(detector, on=on, emits="made", by=by, name="culprit")
    return hierarchy


def run(detector: Any, stream: list[Event], **options: Any) -> list[Change]:
    return one_by_one(Engine(made_of(detector), **options), stream)


# A detector that raises


@dataclass
class FailsAtThree:
    handled: int = 0

    def on_event(self, event: Event) -> Event:
        if event.ts == 3:
            raise ValueError("no threes, please")
        self.handled += 1
        return Event("made", event.ts, {"n": self.handled})


class FailsAtThreePerBatch:
    def __init__(self) -> None:
        self.handled = 0

    def on_batch(self, batch: EventBatch) -> list[Event]:
        made = []
        for event in batch:
            if event.ts == 3:
                raise ValueError("no threes, please")
            self.handled += 1
            made.append(Event("made", event.ts, {"n": self.handled}))
        return made


class FailsAtThreeWithSlots:
    __slots__ = ("handled",)

    def __init__(self) -> None:
        self.handled = 0

    def on_event(self, event: Event) -> Event:
        if event.ts == 3:
            raise ValueError("no threes, please")
        self.handled += 1
        return Event("made", event.ts, {"n": self.handled})


@every_attenuation
def test_an_error_names_the_event_the_detector_and_its_state(attenuation: float) -> None:
    with pytest.raises(DetectorError) as caught:
        run(FailsAtThree, TICKS, attenuation=attenuation)
    message = str(caught.value)
    for part in ("'culprit'", "type='A', ts=3", "ValueError: no threes", "'handled': 3"):
        assert part in message
    assert isinstance(caught.value.__cause__, ValueError)
    assert isinstance(caught.value, BetimesError)


def test_an_error_in_a_generator_is_one_of_the_detector() -> None:
    def detector(event: Event) -> Iterator[Event]:
        yield Event("made", event.ts)
        raise KeyError("gone")

    with pytest.raises(DetectorError, match=r"'culprit' failed at .*ts=0.*KeyError: 'gone'"):
        run(detector, TICKS)


def test_an_error_in_a_replay_is_named_as_well() -> None:
    with pytest.raises(DetectorError, match=r"'culprit' failed at .*ts=3.*no threes"):
        run(FailsAtThree, [tick(1), tick(5), tick(9), tick(3)], attenuation=0.0)


def test_an_error_in_a_batch_is_named() -> None:
    with pytest.raises(DetectorError, match=r"'culprit' failed.*ValueError: no threes"):
        Engine(made_of(FailsAtThreePerBatch), attenuation=0.0, retention=0).feed(TICKS)


def test_an_error_in_a_batch_names_the_event() -> None:
    with pytest.raises(DetectorError, match=r"'culprit' failed at .*ts=3.*no threes"):
        Engine(made_of(FailsAtThreePerBatch), attenuation=0.0, retention=0).feed(TICKS)


def test_after_an_error_the_engine_refuses_to_go_on() -> None:
    engine = Engine(made_of(FailsAtThree), attenuation=0.0, retention=0)
    with pytest.raises(DetectorError):
        engine.feed(TICKS)
    with pytest.raises(BetimesError):
        engine.feed(tick(11))


WITHOUT_THREE = [tick(ts) for ts in range(10) if ts != 3]
DISORDERED = [tick(ts) for ts in (0, 1, 5, 2, 9, 3, 4, 12, 8, 20)]


def skipping(detector: Any, stream: list[Event], batch: int, **options: Any) -> tuple[Any, Any]:
    engine = Engine(made_of(detector), errors="skip", **options)
    batches = [stream[low : low + batch] for low in range(0, len(stream), batch)]
    changes = [*flat(engine.feed(part) for part in batches), *engine.finish()]
    return fold(changes), engine.stats["culprit"].errors


@every_attenuation
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_an_event_at_which_a_detector_fails_can_be_skipped_and_is_counted(
    attenuation: float, batch: int
) -> None:
    for snapshots in (1, 3, 1000):
        options = {"attenuation": attenuation, "snapshots": snapshots}
        result, errors = skipping(FailsAtThree, TICKS, batch, **options)
        assert result == oracle(made_of(FailsAtThree), WITHOUT_THREE)
        assert errors == 1


@every_attenuation
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_skipping_works_in_disorder_and_by_key(attenuation: float, batch: int) -> None:
    stream = [Event("A", e.ts, {"k": e.ts % 2}) for e in DISORDERED]
    sound = [event for event in stream if event.ts != 3]
    for by in (None, "k"):
        hierarchy = made_of(FailsAtThree, by=by)
        engine = Engine(hierarchy, attenuation=attenuation, errors="skip")
        batches = [stream[low : low + batch] for low in range(0, len(stream), batch)]
        changes = [*flat(engine.feed(part) for part in batches), *engine.finish()]
        assert fold(changes) == oracle(hierarchy, sound)
        assert engine.stats["culprit"].errors >= 1


def test_skipping_in_a_batch_skips_only_the_culprit() -> None:
    result, errors = skipping(FailsAtThreePerBatch, TICKS, 100, attenuation=0.0)
    assert (sum(result.values()), errors) == (9, 1)


def test_skipping_in_a_replay_works_for_detectors_with_slots() -> None:
    stream = [tick(ts) for ts in (1, 5, 9, 3, 20)]
    result, errors = skipping(FailsAtThreeWithSlots, stream, 1, attenuation=0.0)
    assert result == oracle(made_of(FailsAtThreeWithSlots), [e for e in stream if e.ts != 3])
    assert errors == 1


@dataclass
class NeedsOrder:
    """Right in order; fails if it is handed the end before the beginning."""

    begun: set[int] = field(default_factory=set)

    def on_event(self, event: Event) -> Event | None:
        if event.type == "B":
            self.begun.add(event["v"])
        elif "v" in event.payload:
            self.begun.remove(event["v"])
            return Event("made", event.ts)
        return None


NEEDS_ORDER = [tick(1), tick(5, v=1), other(3, v=1), tick(9), tick(20)]


def test_a_detector_that_needs_order_is_sound() -> None:
    assert sum(fold(run(NeedsOrder, NEEDS_ORDER, attenuation=1.0, min_slack=5)).values()) == 1


@pytest.mark.parametrize("errors", ["stop", "skip"])
def test_an_error_caused_by_speculation_does_not_show(errors: str) -> None:
    changes = run(NeedsOrder, NEEDS_ORDER, attenuation=0.0, min_slack=5, errors=errors)
    assert fold(changes) == oracle(made_of(NeedsOrder), NEEDS_ORDER)


@pytest.mark.parametrize("errors", ["stop", "skip"])
def test_an_error_that_is_not_certain_yet_survives_a_restart(errors: str) -> None:
    options: dict[str, Any] = {
        "attenuation": 0.0, "min_slack": 5, "errors": errors, "retention": 0,
    }  # fmt: skip
    first, second = (Engine(made_of(FailsAtThree), **options) for _ in range(2))
    for ts in (1, 2, 3, 4):
        first.feed(tick(ts))
    second.restore(first.checkpoint())
    if errors == "stop":
        with pytest.raises(DetectorError, match="no threes"):
            second.feed([tick(30), tick(60)])
    else:
        second.feed([tick(30), tick(60)])
        assert second.stats["culprit"].errors == 1


class Ascending:
    """Fails if a number is missing."""

    def __init__(self) -> None:
        self.next = 0

    def on_event(self, event: Event) -> Event:
        if event["n"] != self.next:
            raise ValueError(f"expected {self.next}")
        self.next += 1
        return Event("made", event.ts, event.payload)


class AscendingPerBatch(Ascending):
    def on_batch(self, batch: EventBatch) -> list[Event]:
        return [self.on_event(event) for event in batch]


@every_attenuation
@pytest.mark.parametrize("kind", [Ascending, AscendingPerBatch])
def test_an_error_that_is_due_to_the_order_does_not_stop_a_cold_start(
    attenuation: float, kind: Any
) -> None:
    stream = [tick(10 * n, n=n) for n in (0, 2, 3, 1, 5, 4, 6, 7)]
    for batch in (1, 3, 8):
        engine = Engine(made_of(kind, on="A"), attenuation=attenuation, retention=40)
        parts = [stream[low : low + batch] for low in range(0, len(stream), batch)]
        changes = flat([*(engine.feed(part) for part in parts), engine.finish()])
        assert fold(changes) == oracle(made_of(kind, on="A"), stream)


def test_an_error_that_nothing_can_repair_any_more_stops_the_engine() -> None:
    engine = Engine(made_of(Ascending, on="A"), attenuation=0.0, slack=0, retention=40)
    engine.feed([tick(0, n=0), tick(20, n=2), tick(60, n=3)])
    with pytest.raises(DetectorError, match="expected 1"):
        engine.feed(tick(61, n=4))


def test_an_error_in_a_calibrated_stream_stops_it_when_its_place_is_final() -> None:
    hierarchy = made_of(FailsAtThree)
    known = Calibration.nothing(hierarchy)
    with pytest.raises(DetectorError, match="no threes"):
        Engine(hierarchy, attenuation=0.0, calibration=known).feed(TICKS)


def test_the_policy_for_errors_must_be_known() -> None:
    with pytest.raises(OptionError, match="one of stop, skip, got errors='x'"):
        Engine(made_of(Count("made")), errors="x")


# A detector that makes what is no event, or not what it declares


def returning(value: Any) -> Callable[[Event], Any]:
    return lambda event: value  # noqa: ARG005


@every_attenuation
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["no event"], "'culprit' to make Event objects, got 'no event'; yield bt.Event"),
        ("text", "'culprit' to make Event objects, got 't'"),
        ([("made", 1)], "'culprit' to make Event objects"),
        (5, "'culprit' failed at .*'int' object is not iterable"),
        (Event("unknown", 3), r"'culprit' made a 'unknown' event at 3.*emits=\['made'\]; add"),
        (Event("made", -1), "'culprit' made a 'made' event with the time -1; expected whole micro"),
        (Event("made", 1.5), "with the time 1.5; expected whole microseconds"),  # type: ignore[arg-type]
        (Event("made", np.int64(3)), "with the time .*3.*; expected whole microseconds"),  # type: ignore[arg-type]
        (Event("made", True), "with the time True; expected whole microseconds"),
        (Event("made", 3, None), "event at 3 with the payload None; expected a dict"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_declared_event_is_refused(attenuation: float, value: Any, message: str) -> None:
    with pytest.raises(DetectorError, match=message):
        run(returning(value), TICKS, attenuation=attenuation)


@pytest.mark.parametrize("made", ["no event", Event("unknown", 3), Event("made", -1)])
def test_what_is_no_declared_event_can_be_skipped(made: Any) -> None:
    def detector(event: Event) -> list[Any]:
        return [made] if event.ts == 3 else [Event("made", event.ts)]

    result, errors = skipping(detector, TICKS, 100, attenuation=0.0)
    assert (sum(result.values()), errors) == (9, 1)


@pytest.mark.parametrize("value", [np.float64(1.5), np.int64(3), object()])
def test_a_payload_that_cannot_be_written_is_named(value: Any) -> None:
    """Either it is refused with the detector's name, or it can be written."""
    try:
        engine = Engine(made_of(lambda event: Event("made", event.ts, {"v": value})))
        changes = engine.feed(TICKS)
    except DetectorError as error:
        assert "culprit" in str(error)  # noqa: PT017
    else:
        assert changes.to_arrow().num_rows == len(changes)


# State that cannot be saved


class HoldsLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n = 0

    def on_event(self, event: Event) -> Event:
        self.n += 1
        return Event("made", event.ts, {"n": self.n})


class HoldsGenerator:
    def __init__(self) -> None:
        self.numbers = (n for n in range(1000))

    def on_event(self, event: Event) -> Event:
        return Event("made", event.ts, {"n": next(self.numbers)})


@every_attenuation
@pytest.mark.parametrize("detector", [HoldsLock, HoldsGenerator])
def test_a_state_that_cannot_be_snapshotted_is_named(attenuation: float, detector: Any) -> None:
    message = "the state of detector 'culprit' cannot be snapshotted: .*or give it snapshot"
    with pytest.raises(DetectorError, match=message):
        run(detector, TICKS, attenuation=attenuation, snapshots=3)


@pytest.mark.parametrize("detector", [HoldsLock, HoldsGenerator])
def test_a_state_that_cannot_be_snapshotted_is_named_at_once(detector: Any) -> None:
    with pytest.raises(DetectorError, match="cannot be snapshotted"):
        Engine(made_of(detector))


def test_a_template_that_cannot_be_copied_is_named() -> None:
    with pytest.raises(BetimesError, match="culprit"):
        Engine(made_of(HoldsLock()))


def test_a_class_that_needs_arguments_is_named() -> None:
    with pytest.raises(BetimesError, match="culprit"):
        Engine(made_of(Count))


# Input that cannot be used


def test_a_missing_key_is_named_and_harms_nothing() -> None:
    engine = Engine(made_of(Count("made")), by="k", attenuation=0.0)
    with pytest.raises(EventError, match=r"the engine has by='k', but .*ts=2.* has no 'k'"):
        engine.feed([tick(1, k=0), tick(2)])
    changes = [*engine.feed([tick(3, k=0), tick(4, k=0)]), *engine.finish()]
    assert fold(changes) == oracle(made_of(Count("made")), [tick(3, k=0), tick(4, k=0)])


def test_a_missing_key_of_a_detector_is_named() -> None:
    engine = Engine(made_of(Count("made"), by="k"), attenuation=0.0)
    with pytest.raises(EventError, match=r"detector 'culprit' has by='k', but .*ts=2.* has no 'k'"):
        engine.feed([tick(1, k=0), tick(2), tick(3, k=0)])


def test_a_missing_key_of_a_detector_loses_no_other_event() -> None:
    engine = Engine(made_of(Count("made"), by="k"), attenuation=0.0)
    with pytest.raises(EventError):
        engine.feed([tick(1, k=0), tick(2), tick(3, k=0)])
    # The batch was refused as a whole; what is sound in it can be fed again.
    sound = [tick(ts, k=0) for ts in (1, 3, 4, 5)]
    changes = [*engine.feed(sound), *engine.finish()]
    assert fold(changes) == oracle(made_of(Count("made"), by="k"), sound)


@pytest.mark.parametrize("where", ["engine", "detector"])
def test_a_key_that_cannot_be_one_is_named(where: str) -> None:
    by = {"engine": ("k", None), "detector": (None, "k")}[where]
    engine = Engine(made_of(Count("made"), by=by[1]), attenuation=0.0, by=by[0])
    with pytest.raises(EventError, match="k"):
        engine.feed([tick(1, k=[1])])


@pytest.mark.parametrize("type", ["unknown", "made"])
def test_an_event_of_a_type_that_is_no_input_is_named(type: str) -> None:
    hierarchy = Hierarchy(clock="A", inputs=("A",))
    hierarchy.add(Count("made"), on="A", emits="made")
    engine = Engine(hierarchy)
    with pytest.raises(EventError, match=type):
        engine.feed(Event(type, 1, {"k": 0}))


def test_nothing_can_be_fed_after_the_end() -> None:
    engine = Engine(made_of(Count("made")))
    engine.finish()
    with pytest.raises(StreamEndedError, match=r"after finish.*build a new Engine"):
        engine.feed(tick(1))


def test_a_stream_ends_once() -> None:
    engine = Engine(made_of(Count("made")))
    engine.finish()
    with pytest.raises(StreamEndedError, match=r"expected finish\(\) to be called once"):
        engine.finish()
