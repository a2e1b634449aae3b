"""A detector that fails when its deadline has passed: skipped and counted like any failure."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine import Engine, Hierarchy
from betimes.model import Event
from betimes.model.change import Change, fold
from betimes.model.detector import DetectorError
from betimes.testing.oracle import oracle
from betimes.testing.strategies import cut

FOREVER = "1000d"


class Late:
    """Sums up values for some time; fails at an odd sum, and at texts."""

    periodic = False

    def __init__(self) -> None:
        self.sum = 0
        self.deadline: int | None = None

    def on_event(self, event: Event) -> Event | None:
        before = self.sum
        self.sum += event["v"]
        self.deadline = event.ts + 7
        return Event("more", event.ts, {"sum": self.sum}) if self.sum > before else None

    def on_time(self, ts: int) -> list[Event]:
        self.deadline = ts + 5 if self.periodic and ts < 60 else None
        total, self.sum = self.sum, 0
        if total % 2:
            raise ArithmeticError("odd")
        return [Event("sum", ts, {"sum": total})] * (total > 0)


class Often(Late):
    """Sets its next deadline before it fails."""

    periodic = True


class Stuck(Late):
    """Fails before it has set its next deadline."""

    def on_time(self, ts: int) -> list[Event]:
        if self.sum % 2:
            raise ArithmeticError("odd")
        return super().on_time(ts)


class Careful:
    """Does what a detector should do whose failures are skipped."""

    kind: Any = Late

    def __init__(self) -> None:
        self.inner = self.kind()

    @property
    def deadline(self) -> int | None:
        found: int | None = self.inner.deadline
        return found

    def on_event(self, event: Event) -> Any:
        before = copy.deepcopy(self.inner)
        try:
            return self.inner.on_event(event)
        except TypeError:
            self.inner = before
            return None

    def on_time(self, ts: int) -> Any:
        before = copy.deepcopy(self.inner)
        try:
            return self.inner.on_time(ts)
        except ArithmeticError:
            following = self.inner.deadline
            self.inner = before
            self.inner.deadline = following if following is None or following > ts else None
            return []


def hierarchy(kind: Any, by: str | None = "k") -> Hierarchy:
    made = Hierarchy(clock="*")
    made.add(kind, on=("A", "B"), emits=("more", "sum"), by=by, name="late")
    return made


def careful(kind: Any, by: str | None) -> Hierarchy:
    return hierarchy(type("CarefulOne", (Careful,), {"kind": kind}), by)


VALUES = st.sampled_from([0, 1, 1, 2, 3, "x"])
EVENTS = st.builds(
    lambda type, ts, v, k: Event(type, ts, {"v": v, "k": k}),
    st.sampled_from("AB"), st.integers(0, 40), VALUES, st.integers(0, 1),
)  # fmt: skip


@given(
    st.lists(EVENTS, max_size=14),
    st.sampled_from([Late, Often, Stuck]),
    st.sampled_from(["k", None]),
    st.fixed_dictionaries({
        "attenuation": st.sampled_from([0.0, 0.4, 1.0]),
        "snapshots": st.sampled_from([1, 3, 100]),
        "retraction": st.sampled_from(["full", "on-demand"]),
    }),
    st.data(),
)  # fmt: skip
def test_the_rest_is_as_if_it_had_only_set_its_next_deadline(
    stream: list[Event], kind: Any, by: str | None, options: dict[str, Any], data: st.DataObject
) -> None:
    options |= {"errors": "skip", "retention": FOREVER, "time": lambda: 0.0}
    given = hierarchy(kind, by)
    engine, changes = Engine(given, **options), list[Change]()
    for batch in data.draw(cut(stream)):
        changes += engine.feed(list(batch))
        if data.draw(st.booleans()):
            again = Engine(given, **options)
            again.restore(engine.checkpoint())
            engine = again
    changes += engine.finish()
    assert fold(changes) == oracle(careful(kind, by), stream)
    ordered = Engine(given, **(options | {"attenuation": 1.0}))
    list(ordered.feed(sorted(stream, key=lambda event: event.ts)))
    list(ordered.finish())
    assert engine.stats["late"].errors == ordered.stats["late"].errors


def test_a_late_event_may_repair_it() -> None:
    engine = Engine(hierarchy(Late, None), attenuation=0.0, slack=100)
    changes = list(engine.feed([Event("A", 10, {"v": 1}), Event("B", 20, {"v": 2})]))
    assert "sum" not in {change.type for change in changes}
    changes += engine.feed(Event("B", 15, {"v": 1}))
    assert [(c.ts, c.payload) for c in changes if c.type == "sum"] == []
    changes += engine.feed(Event("B", 16, {"v": 2}))
    changes += engine.finish()
    assert engine.stats["late"].errors == 0
    assert fold(changes) == oracle(
        hierarchy(Late, None),
        [
            Event("A", 10, {"v": 1}),
            *(Event("B", t, {"v": v}) for t, v in ((15, 1), (16, 2), (20, 2))),
        ],
    )


def test_it_stops_the_engine_once_nothing_can_repair_it() -> None:
    engine = Engine(hierarchy(Late, None), attenuation=0.0, slack=10, retention=15)
    engine.feed([Event("A", 10, {"v": 1}), Event("A", 20, {"v": 2})])
    engine.feed(Event("A", 40, {"v": 0}))
    with pytest.raises(
        DetectorError, match=r"'late' failed at Event.*'time'.*: ArithmeticError: odd"
    ):
        engine.feed(Event("A", 60, {"v": 0}))


class Derived:
    """Has a deadline that follows from its state, and does not move it when it fails."""

    def __init__(self) -> None:
        self.began: int | None = None

    @property
    def deadline(self) -> int | None:
        return None if self.began is None else self.began + 5

    def on_event(self, event: Event) -> None:
        self.began = event.ts

    def on_time(self, ts: int) -> None:
        raise ArithmeticError(f"at {ts}")


def test_a_deadline_that_nobody_can_move_stops_the_engine() -> None:
    engine = Engine(hierarchy(Derived, None), errors="skip", attenuation=0.0)
    with pytest.raises(DetectorError, match=r"ArithmeticError: at 15.*deadline"):
        engine.feed([Event("A", 10, {"v": 1}), Event("A", 40, {"v": 1})])
