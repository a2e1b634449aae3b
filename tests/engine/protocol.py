"""The contract of tactics as code: a tactic around a tactic that checks every call.

`Checked` records what its tactic handles and tells. After each batch it runs the detector over the
record, once and in order, and compares. It goes wherever a tactic goes, also through a checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isfunction
from typing import Any

from betimes.engine import Engine, Hierarchy
from betimes.engine.news.digests import encode
from betimes.engine.news.news import News
from betimes.engine.news.outputs import Output, Outputs, Place
from betimes.engine.node import Node
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.tactic import (
    END,
    ColumnReplay,
    Ints,
    Joined,
    Moment,
    Replay,
    Setting,
    Told,
)
from betimes.model import Event
from betimes.model.change import Change, content, fold
from betimes.model.codec import dumps
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.testing.oracle import call, oracle, run_out

NAME = "tested"
INPUT, ABOVE = ("A", "B", "C"), ("A", "R", "C")
"""What the detector under test reads at the first level, and above a detector that makes R."""
Found = tuple[Place, tuple[str, int, str]]
"""The place of a cause, and the content of what it caused."""


@dataclass(frozen=True)
class Case:
    """A tactic, with a detector for it to run."""

    name: str
    tactic: Callable[[Setting], Any] | None
    """None for the one that its description names."""
    detector: Any
    """A detector, or a function that makes a pattern of three types."""
    emits: tuple[str, ...] = ("made", "made-")

    def hierarchy(
        self, *, by: str | None = None, above: bool = False, clock: Any = "A", plain: bool = False
    ) -> Hierarchy:
        """The detector, run by the tactic; `plain` leaves the checks out."""
        made = Hierarchy(clock=clock)
        if above:
            made.add(Relay, on=("B", "C"), emits="R", by=by, name="relay")
        types = ABOVE if above else INPUT
        if isfunction(self.detector):
            made.add(self.detector(types), by=by, name=NAME)
        else:
            made.add(self.detector, on=types, emits=self.emits, by=by, name=NAME)
        node = made._nodes[NAME]
        tactic: Any = self.tactic or node.tactic
        if not plain:
            tactic = partial(Checked, tactic)
        made._nodes[NAME] = replace(node, tactic=tactic)
        return made


class Relay:
    """Publishes each event with a number that depends on the order."""

    def __init__(self) -> None:
        self.n = 0

    def on_event(self, event: Event) -> Event | None:
        self.n = (2 * self.n + event["v"]) % 5
        return Event("R", event.ts, {"k": event["k"], "v": self.n}) if self.n else None


class Checked:
    """A tactic that behaves as another one, and asserts that it keeps the protocol."""

    def __init__(self, make: Callable[[Setting], Any], setting: Setting) -> None:
        self._setting = setting
        self._tactic = make(setting)
        self._record: dict[Place, Event] = {}
        """The events that were handled, by place."""
        self._told: dict[str, Place] = {}
        """The outputs that were told and neither taken back nor forgotten."""
        self._reach = -1

    @property
    def weighs(self) -> bool:
        return bool(self._tactic.weighs)

    @property
    def reads_rows(self) -> bool:
        return bool(self._tactic.reads_rows)

    @property
    def passed(self) -> int | None:
        passed: int | None = self._tactic.passed
        return passed

    @property
    def next_due(self) -> int:
        return int(self._tactic.next_due)

    def let_pass(self, time: int) -> None:
        assert time < self.next_due
        self._tactic.let_pass(time)
        self._check()

    @property
    def remembered(self) -> int:
        return int(self._tactic.remembered)

    def snapshots(self) -> tuple[int, int]:
        count, size = self._tactic.snapshots()
        return count, size

    # Arrivals

    def read(self, inputs: Inputs) -> Arrivals:
        before = self._fingerprint()
        self._tactic.read(Inputs(inputs.batch, inputs.groups, inputs.first))
        arrivals: Arrivals = self._tactic.read(inputs)
        assert self._fingerprint() == before, "read changed something"
        return arrivals

    def _fingerprint(self) -> tuple[bytes, Any]:
        counts, copies = self._setting.counts, self._setting.outputs.copies
        readings = [getattr(counts, name) for name in counts.__struct_fields__]
        return dumps(self._written(), "the tactic"), (readings, dict(copies.state_of()))

    def put(self, row: int, arrivals: Arrivals) -> None:
        self._tactic.put(row, arrivals)

    def join(self, arrivals: Arrivals, joined: Joined) -> Arrivals:
        both: Arrivals = self._tactic.join(arrivals, joined)
        assert len(both.batch) == len(both.at) == len(joined.batch)
        for index, output in zip(joined.now.tolist(), joined.outputs, strict=True):
            assert both.event(index) == output.event
        for index, row in enumerate(joined.was.tolist()):
            assert both.event(row) == arrivals.event(index)
        return both

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:
        row: int | None = self._tactic.withdraw(output, at, final_to)
        handled = self._record.pop(output.place, None)
        assert (row is None) == (handled is not None), "it waits, or it was handled: one of both"
        return row

    def take(self, rows: Ints, ts: Ints, at: Ints) -> tuple[Any, Ints]:
        events, mine = self._tactic.take(rows, ts, at)
        assert len(events) == len(mine)
        assert set(mine.tolist()) <= set(rows.tolist())
        times = dict(zip(rows.tolist(), ts.tolist(), strict=True))
        assert events.ts.tolist() == [times[row] for row in mine.tolist()], "what waits is lost"
        return events, mine

    def parts(self) -> dict[str, dict[str, int]]:
        parts: dict[str, dict[str, int]] = self._tactic.parts()
        return parts

    def drop(self, rows: Ints) -> None:
        self._tactic.drop(rows)

    # Handling

    def handle(self, events: Any, moment: Moment) -> Iterator[Told]:
        for row in range(len(events)):
            place = events.place(row)
            assert place not in self._record, "an event is handed out once"
            self._record[place] = events.event(row)
        for told in self._tactic.handle(events, moment):
            old: Sequence[Output] = ()
            new: Sequence[Output] = ()
            if isinstance(told, ColumnReplay):
                old, new = told.gone, told.fresh
            elif isinstance(told, Replay):
                old, new = told.old, told.new
                both = {(o.id, o.place) for o in old} & {(o.id, o.place) for o in new}
                assert {name for name, _ in both} == told.stay, "what comes again stays"
            else:
                new = told
            for output in old:
                assert self._told.pop(output.id, None), "a replay takes back what was told"
            self._told |= {output.id: output.place for output in new}
            yield told
        self._check()

    def _check(self) -> None:
        """The outputs that are remembered are those of a plain run over what was handled."""
        outputs = list(self._tactic.outputs())
        self._check_told(outputs)
        expected = plain_run(self._setting, self._record, self.passed)
        found = Counter((output.cause, content(output.event)) for output in outputs)
        for mine in expected.values():
            wanted = Counter(mine)
            since = min((cause for cause, _ in wanted if (cause, _) in found), default=None)
            for cause, what in wanted:
                if cause[0] >= self._reach or (since is not None and cause >= since):
                    made = found.pop((cause, what), 0)
                    assert made == wanted[cause, what], f"lost: {what}, made at {cause}"
        assert not found, f"not what the detector makes: {found}"
        since_reach = sum(place[0] >= self._reach for place in self._record)
        assert since_reach <= self.remembered <= len(self._record)

    def _check_told(self, outputs: list[Output]) -> None:
        """What is remembered was told, and the numbers of equal outputs are theirs alone."""
        known = {output.id: output.place for output in outputs}
        assert known == self._told, "told is not remembered"
        copies: dict[str, int] = {}
        for output in outputs:
            bit = 1 << output.copy
            assert not copies.get(output.base, 0) & bit, "two outputs of one identity"
            copies[output.base] = copies.get(output.base, 0) | bit
        assert self._setting.outputs.copies.state_of() == copies, "identities that are not freed"

    # Memory

    def tidy(self, held: Ints) -> None:
        self._tactic.tidy(held)

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        self._reach = max(self._reach, before)
        for outputs in self._tactic.forget(before):
            for output in outputs:
                assert output.cause[0] < before, "somebody may still ask for it"
                del self._told[output.id]
            yield outputs

    # Checkpoints

    def outputs(self) -> Outputs:
        outputs: Outputs = self._tactic.outputs()
        return outputs

    def _written(self) -> list[Any]:
        """The state of the tactic, all in one."""
        volumes = VolumeWriter()
        state = self._tactic.state_of(volumes, END)
        return [state, volumes.finish().table]

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        outputs = self._tactic.outputs()
        return {
            "tactic": self._tactic.state_of(volumes, settled),
            "record": self._record,
            "reach": self._reach,
            "told": (outputs.ids, outputs.places),
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._record, self._reach = kept["record"], kept["reach"]
        ids, places = kept["told"]
        self._told = dict(zip(ids, places, strict=True))
        self._tactic.resume(kept["tactic"], volumes)
        assert self._tactic.outputs().ids == ids, "all, in the same order"


def plain_run(
    setting: Setting, record: dict[Place, Event], passed: int | None
) -> dict[Any, list[Found]]:
    """What the detectors make of events in order, by key, without any tactic."""
    node = setting.node
    detectors: dict[Any, Any] = {}
    found: dict[Any, list[Found]] = {}
    for place, event in sorted(record.items(), key=lambda pair: pair[0]):
        key = _key(node, event, grouped=setting.grouped)
        if key not in detectors:
            detectors[key], found[key] = node.maker.make(), []
        found[key] += _due(node, detectors[key], place[0], key)
        made = call(node.maker.kind, detectors[key], event)
        found[key] += [(place, content(each)) for each in made]
    for key, detector in detectors.items() if passed is not None else ():
        found[key] += _due(node, detector, passed or 0, key)
    return found


def _key(node: Node, event: Event, *, grouped: bool) -> Any:
    """The key as tactics build it; engine and detector split by the same column."""
    key = event.payload["k"]
    if node.by and grouped:
        return key, key
    return key if node.by or grouped else None


def _due(node: Node, detector: Any, ts: int, key: Any) -> list[Found]:
    if not node.maker.timed:
        return []
    made = run_out(detector, ts, key)
    return [((place[0], place[1], encode(key)), content(event)) for place, _, event in made]


# Runs


@dataclass(frozen=True)
class Run:
    """A stream in batches, with what happens between them, and the options of an engine."""

    batches: list[list[Event]]
    attenuations: list[float | None]
    """What to set before each batch; None leaves it."""
    restarts: list[bool]
    """Whether to resume from a checkpoint before each batch."""
    options: dict[str, Any]
    by: str | None = None
    above: bool = False
    clock: Any = "A"

    @property
    def stream(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]


def through_bytes(news: News) -> News:
    """News that has travelled."""
    return News.from_bytes(news.to_bytes())


def feed(
    run: Run, hierarchy: Hierarchy, *, restart: bool = True, carry: Any = None
) -> list[Change]:
    """All changes of a run; `carry` takes news from stage to stage."""
    # Time that stands still: measured costs must not decide where snapshots are taken.
    options = {"time": lambda: 0.0, "carry": carry, **run.options}
    engine, changes = Engine(hierarchy, **options), list[Change]()
    for batch, value, restarts in zip(run.batches, run.attenuations, run.restarts, strict=True):
        if restart and restarts:
            kept, now = engine.checkpoint(), next(iter(engine.attenuation.values()))
            engine = Engine(hierarchy, **options)
            engine.restore(kept)
            engine.set_attenuation(now)
        if value is not None:
            engine.set_attenuation(value)
        changes += engine.feed(list(batch))
    return [*changes, *engine.finish()]


def check(case: Case, run: Run) -> None:
    """One run keeps every clause; else an AssertionError, or an error of the engine, says which."""
    hierarchy = case.hierarchy(by=run.by, above=run.above, clock=run.clock)
    changes = feed(run, hierarchy)
    assert repr(changes) == repr(feed(run, hierarchy, restart=False)), "a restart shows"
    apart = feed(
        run, case.hierarchy(by=run.by, above=run.above, clock=run.clock), carry=through_bytes
    )
    assert repr(changes) == repr(apart), "it shows that news has travelled"
    if run.options.get("late", "repair") == "repair" and run.options["retention"] > 10**6:
        assert fold(changes) == oracle(hierarchy, run.stream, by=run.options.get("by"))
