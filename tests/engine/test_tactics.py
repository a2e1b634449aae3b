"""One suite for all tactics: each keeps the protocol of `betimes.engine.stages.tactic`.

To have a tactic checked, add a line to `CASES` in `cases.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given

from betimes.engine import Engine, Hierarchy
from betimes.engine.news.making import OutputMaker
from betimes.engine.news.outputs import Output, Outputs
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.columns import ColumnTactic
from betimes.engine.stages.columns.history import CodedEvents
from betimes.engine.stages.rows import RowTactic
from betimes.engine.stages.slices import SliceTactic
from betimes.engine.stages.tactic import Setting
from betimes.model import Event, EventBatch, EventError
from betimes.model.codec import dumps
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.patterns import pattern
from tests.engine.cases import CASES, LARGER, every_case, runs, tidies_early
from tests.engine.material import FOREVER, Count, Watched, share, standing
from tests.engine.protocol import NAME, Case, Run, check, feed

pytestmark = pytest.mark.usefixtures(tidies_early.__name__)


@every_case
@given(runs())
@share(0.12)
def test_every_clause_holds(case: Case, run: Run) -> None:
    check(case, run)


# Reading changes nothing


def mixed(case: Case, **options: Any) -> Engine:
    """An engine whose second detector needs a column that the first does not."""
    hierarchy = case.hierarchy(by="k", plain=True)

    def needs(event: Event) -> None:
        assert event["k"] is not None

    hierarchy.add(needs, on="A", emits="nothing", by="w", name="needs w")
    return Engine(hierarchy, attenuation=0.0, time=lambda: 0.0, **options)


@every_case
@pytest.mark.parametrize("split", [{}, {"by": "k"}, {"by": "k", "order": "key"}], ids=str)
def test_a_batch_that_another_detector_refuses_leaves_no_trace(
    case: Case, split: dict[str, Any]
) -> None:
    sound = [Event("ABC"[n % 3], n, {"k": n % 2, "v": n % 4, "w": 0}) for n in range(20)]
    bad = [Event(type, 20, {"k": "new", "v": 1}) for type in "ABC"]
    one, another = mixed(case, **split), mixed(case, **split)
    told = [list(one.feed(sound)), list(another.feed(sound))]
    with pytest.raises(EventError, match=r"'needs w'.*has no 'w'"):
        one.feed([*bad, Event("D", 20, {"k": 7})])
    assert one.checkpoint() == another.checkpoint()
    assert set(one.stats) == set(another.stats)
    assert one.ignored == another.ignored
    rest = [Event("ABC"[n % 3], n - 5, {"k": n % 3, "v": n % 4, "w": 0}) for n in range(20, 40)]
    for engine, changes in zip((one, another), told, strict=True):
        changes += [*engine.feed(rest), *engine.finish()]
    assert told[0] == told[1]


def larger(**options: Any) -> Engine:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(pattern("A C", define=LARGER, within=50, emits="made"))
    return Engine(hierarchy, attenuation=1.0, **options)


def test_a_failure_is_counted_once_though_the_batch_was_refused_before() -> None:
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(pattern("A C", define=LARGER, within=50, emits="made"), name=NAME)
    hierarchy.add(Count("nothing"), on="C", emits="nothing", by="w", name="needs w")
    engine = Engine(hierarchy, attenuation=1.0, errors="skip")
    events = [Event("A", 1, {"v": 1}), Event("C", 2, {"k": 0, "v": "text", "w": 0})]
    with pytest.raises(EventError, match="has no 'w'"):
        engine.feed([*events, Event("C", 3, {"v": 1})])
    engine.feed(events)
    assert engine.stats[NAME].errors == 1


def test_a_value_that_was_skipped_does_not_say_what_a_column_holds() -> None:
    engine = larger(errors="skip")
    events = [Event("A", 1, {"v": "text"}), Event("A", 2, {"v": 1}), Event("C", 3, {"v": 2})]
    changes = [change for event in events for change in engine.feed(event)]
    assert [change.ts for change in [*changes, *engine.finish()]] == [3]
    assert engine.stats["made"].errors == 1


# Memory


SLACK, RETENTION, BATCH, SNAPSHOTS = 20, 100, 50, 10


def long_stream(count: int) -> Iterator[EventBatch]:
    """One event per microsecond, of which every seventh comes late by the slack."""
    for first in range(0, count, BATCH):
        n = np.arange(first, first + BATCH)
        ts = np.maximum(n - SLACK * (n % 7 == 0), 0)
        payload = [{"k": k % 3, "v": k % 4} for k in n.tolist()]
        yield EventBatch(ts, (n % 3).astype(np.int32), ("A", "B", "C"), payload)


def check_memory(case: Case, above: bool, by: str | None, count: int = 3000) -> None:
    """What is remembered follows slack and retention, and the state does not grow."""
    watched = Watched()
    engine = Engine(
        case.hierarchy(by=by, above=above, plain=True), attenuation=0.5, retention=RETENTION,
        snapshots=SNAPSHOTS, observers=[watched], time=lambda: 0.0,
    )  # fmt: skip
    sizes = []
    for number, batch in enumerate(long_stream(count)):
        engine.feed(batch)
        # Whole segments are forgotten, and each key keeps its last one.
        worth = SLACK + RETENTION + BATCH + 6 * SNAPSHOTS
        assert engine.stats[NAME].remembered <= worth, number
        if number % 3 == 0:
            (stage,) = (stage for stage in watched.stages if stage.node.name == NAME)
            state = stage.state_of(volumes := VolumeWriter())
            sizes.append(len(dumps([state, volumes.finish().table], "the stage")))
    middle = len(sizes) // 2
    assert max(sizes[middle:]) <= 1.1 * max(sizes[:middle]), sizes


@every_case
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("above", [False, True])
def test_memory_is_bounded(case: Case, above: bool, by: str | None) -> None:
    check_memory(case, above, by)


# Tactics agree


@every_case
@given(runs())
@share(0.06)
def test_rows_give_the_same_matches_the_same_identity(case: Case, run: Run) -> None:
    """The tactic of rows runs every detector."""
    run = replace(run, options=run.options | {"late": "repair", "retention": FOREVER})
    assert ids(case, run) == ids(replace(case, tactic=RowTactic), run)


def ids(case: Case, run: Run) -> Counter[str]:
    """The identities of what stands in the end; equal matches differ by a number."""
    changes = feed(run, case.hierarchy(by=run.by, clock=run.clock, plain=True))
    return Counter(match_id.split("-")[0] for match_id in standing(changes))


# Tactics that break a clause are found


class NeverFrees(RowTactic):
    """Does not unmake the outputs that it goes back behind."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(replace(setting, outputs=Sticky(setting.outputs)))


class Sticky(OutputMaker):
    """Shares everything with another one, and frees no numbers."""

    def __init__(self, other: OutputMaker) -> None:
        self.__dict__ = other.__dict__

    def unmake(self, outputs: Iterable[Output]) -> None:
        """Nothing is unmade."""


class SkipsAKey(SliceTactic):
    """Handles the events of all keys of a batch but the last."""

    def _by_key(self, events: Any) -> list[tuple[Any, Any]]:
        parts = super()._by_key(events)
        return parts[:-1] if len(parts) > 1 else parts


class DropsUndo(ColumnTactic):
    """Loses the states to which it should go back."""

    def _insert(self, late: CodedEvents) -> int:
        first = super()._insert(late)
        for segment in self._segments[first:]:
            segment.undo = segment.undo[:, :0]
        return first


class LeavesOutputs(RowTactic):
    """Tells of a replay only what is new."""

    def handle(self, events: Any, moment: Any) -> Iterator[Any]:
        for told in super().handle(events, moment):
            yield told if isinstance(told, Outputs) else Outputs.of(told.new)


class TakesInWhatItReads(RowTactic):
    def read(self, inputs: Inputs) -> Arrivals:
        arrivals = super().read(inputs)
        self.put(inputs.first, arrivals)
        return arrivals


class LosesWaiting(SliceTactic):
    """Resumes without what has not been handed out."""

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        super().resume(kept | {"waiting": (np.empty(0, np.int64), None)}, volumes)


class KeepsWithdrawn(RowTactic):
    """Does not take out what was taken back from below."""

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        known = {match for match, _ in self._below.state_of().values()}
        return super().withdraw(output, at, final_to) if output.id in known else None


class ForgetsNothing(ColumnTactic):
    def forget(self, before: int) -> Iterable[Outputs]:  # noqa: ARG002
        return ()


def some_runs(count: int) -> Iterator[Run]:
    """Runs in heavy disorder, always the same ones."""
    chance = random.Random(7)
    for number in range(count):
        stream = [
            Event(chance.choice("ABC"), ts, {"k": chance.randrange(3), "v": chance.randrange(4)})
            for ts in sorted(range(40), key=lambda ts: ts + chance.randrange(15))
        ]
        size = chance.choice([1, 3, 8])
        batches = [stream[low : low + size] for low in range(0, len(stream), size)]
        options = {"attenuation": chance.choice([0.0, 0.5]), "retention": FOREVER, "snapshots": 4}
        restarts = [number % 2 == 1 and chance.random() < 0.3 for _ in batches]
        yield Run(
            batches, [None] * len(batches), restarts, options,
            by=chance.choice([None, "k"]), above=chance.random() < 0.5,
        )  # fmt: skip


BROKEN = [
    (NeverFrees, "rows: per event", "identities that are not freed"),
    (LeavesOutputs, "rows: per event", "told is not remembered"),
    (TakesInWhatItReads, "rows: per event", "read changed something"),
    (KeepsWithdrawn, "rows: per batch", "lost"),
    (SkipsAKey, "slices: columns", "lost"),
    (LosesWaiting, "slices: columns", "some are lost"),
    (DropsUndo, "columns", "not what the detector makes"),
]


def check_all(case: Case) -> None:
    for run in some_runs(8):
        check(case, run)


@every_case
def test_the_runs_that_find_broken_tactics_pass_with_sound_ones(case: Case) -> None:
    check_all(case)


class Counting(RowTactic):
    """Counts what it is asked."""

    asked: ClassVar[Counter[str]] = Counter()

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        row = super().withdraw(output, at, final_to)
        self.asked["handled" if row is None else "waiting"] += 1
        return row

    def handle(self, events: Any, moment: Any) -> Iterator[Any]:
        for told in super().handle(events, moment):
            self.asked["outputs" if isinstance(told, Outputs) else "replay"] += 1
            yield told

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self.asked["resume"] += 1
        super().resume(kept, volumes)


def test_the_runs_reach_all_that_a_tactic_is_asked() -> None:
    Counting.asked.clear()
    check_all(Case("counting", Counting, Count("made")))
    assert min(Counting.asked[what] for what in ("handled", "waiting", "replay", "resume")) > 0


@pytest.mark.parametrize(("tactic", "name", "clause"), BROKEN)
def test_a_tactic_that_breaks_a_clause_is_found(tactic: Any, name: str, clause: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    with pytest.raises((AssertionError, LookupError), match=clause):
        check_all(replace(case, tactic=tactic))


def test_a_tactic_that_forgets_nothing_is_found() -> None:
    (case,) = (case for case in CASES if case.name == "columns")
    with pytest.raises(AssertionError):
        check_memory(replace(case, tactic=ForgetsNothing), above=False, by=None)
