"""One order for all events: the stages of a hierarchy, fed in topological order.

Within a batch, every stage sees the input events together with everything that the stages below it
have published, taken back or confirmed. So a batch costs at most one replay per stage and key,
however many events were late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from betimes.engine.budget import Budget
from betimes.engine.changes import ChangeWriter, Reporter, Standing
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.load import Load, Span
from betimes.engine.news.ledger import Ledger
from betimes.engine.news.news import News
from betimes.engine.news.wiring import Wiring
from betimes.engine.options import EngineOptions
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.observers import Observer
from betimes.engine.stages.tactic import END, Ints
from betimes.engine.stats import DetectorStats
from betimes.engine.stored import OrderState, StageState, check_rows
from betimes.engine.wired import wired
from betimes.model import TICK, Duration, Event, EventBatch, OptionError, microseconds
from betimes.model.change import Parts
from betimes.model.codec import dumps, loads
from betimes.model.coded import Coded
from betimes.model.stored import shaped
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.ordering.sources import Sources
from betimes.ordering.workspace import Workspace


class Readings(NamedTuple):
    """A batch as the stages read it."""

    arrivals: Mapping[str, Arrivals]
    ts: Ints
    numbers: int
    """How many arrival numbers it takes."""
    blocks: bool = False
    """Whether each source may come as a block."""
    gathered: int = 0
    """How many events, its first ones, have waited for this batch."""


class SharedOrder:
    """The stages of one engine, or of one key of it."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        options: EngineOptions,
        changes: ChangeWriter,
        *,
        time: Callable[[], float],
        observers: Sequence[Observer],
        carry: Callable[[News], News] | None = None,
        cores: int | None = None,
        foresight: Any = None,
        key: Any = None,
        budget: Budget,
        workspace: Workspace,
    ) -> None:
        self._options = options
        self._reporter = Reporter(changes, key)
        self._carry = carry
        self._time = time
        self._levels, self._depth = hierarchy.levels(), hierarchy.depth
        source = options.source
        self._sources = None if source is None else Sources(source, "the engine")
        self.stages = wired(
            hierarchy, options, time=time, observers=observers, cores=cores, foresight=foresight,
            sources=self._sources, workspace=workspace,
        )  # fmt: skip
        self._rests = [stage.rest for stage in self.stages.values()]
        self._ledgers = {name: Ledger() for name, stage in self.stages.items() if stage.voids}
        """What readers remember of detectors that may take back a lot with one message."""
        self._gathered: list[Event] = []
        """Events that only wait, at every stage, until one comes that does more."""
        self._codes: dict[str, int] = {}
        """Numbers for the types of events that came one by one."""
        self.gathers = carry is None and options.by is None and source is None
        """Whether events that only wait may be gathered until one comes that does more."""
        self._forgetful = False
        """Whether stages were told to forget, and will when the next event comes."""
        self._budget = budget
        self._max_skew = microseconds(options.max_skew or 0)
        self._arrived = 0
        self._newest = -1
        """The largest time of any event."""

    @property
    def empty(self) -> bool:
        """Whether nothing has arrived yet."""
        return not self._arrived

    def read(
        self,
        batch: EventBatch,
        groups: Coded | None,
        events: list[Event] | None,
        *,
        blocks: bool = False,
    ) -> Readings:
        """Sort out what arrives where; a bad event is an error, and nothing is taken in yet."""
        if self._sources is not None:
            if self._sources.crowded:
                self._sources.make_way([stage.unit for stage in self.stages.values()])
            batch = self._sources.told_apart(batch)
        self._flush()
        every = Inputs(batch, groups, self._arrived, events)
        inputs = {name: stage.arrivals(every) for name, stage in self.stages.items()}
        return Readings(inputs, batch.ts, len(batch), blocks)

    def read_one(self, event: Event) -> Readings:
        """Sort out a single event, and with it those that were gathered."""
        events = [*self._gathered, event]
        batch = self._batch(events)
        every = Inputs(batch, None, self._arrived, events)
        inputs = {name: stage.arrivals(every) for name, stage in self.stages.items()}
        return Readings(inputs, batch.ts[-1:], len(events), gathered=len(events) - 1)

    def gather(self, event: Event) -> bool:
        """Take in an event if it only waits; otherwise it has to be read.

        Nothing can be told of it: whatever it has a part in comes of a later event.
        """
        number = self._arrived + len(self._gathered)
        if self._budget.due(number, number + 1):
            return False
        rests, ts = self._rests, event.ts
        for rest in rests:
            if not rest.admits(event):
                return False
        if ts > self._newest:
            if ts > self._sound():
                return False
            self._newest = ts
        moves = self._forgetful
        for rest in rests:
            moves = rest.gather(event) or moves
        if moves:
            self._pass_time(event)
        self._gathered.append(event)
        self._forgetful = False
        return True

    def _pass_time(self, event: Event) -> None:
        """A gathered event moves clocks, and with them how far order is certain."""
        wiring = Wiring()
        for name, stage in self.stages.items():
            wiring.told[name] = self._heard(name, stage.wait(event, wiring.since(stage)))

    def _flush(self) -> None:
        """Let the stages have what was gathered, because somebody looks at them."""
        if self._gathered:
            batch, count = self._batch(self._gathered), len(self._gathered)
            every = Inputs(batch, None, self._arrived, [*self._gathered])
            inputs = {name: stage.arrivals(every) for name, stage in self.stages.items()}
            parts = self.take(Readings(inputs, batch.ts[:0], count, gathered=count))
            assert not parts, "events that only wait have changed something"

    def _batch(self, events: list[Event]) -> EventBatch:
        """Events that were gathered; they have been checked."""
        codes = self._codes
        try:
            mine = [codes[event.type] for event in events]
        except KeyError:
            mine = [codes.setdefault(event.type, len(codes)) for event in events]
        payload = [event.payload for event in events]
        return EventBatch(
            np.array([event.ts for event in events], np.int64), np.array(mine, np.int32),
            tuple(codes), payload if any(payload) else None,
        )  # fmt: skip

    def take(self, readings: Readings) -> Parts:
        """Take in what was read."""
        inputs, ts, count, blocks, gathered = readings
        first = self._arrived + gathered
        self._arrived += count
        if gathered:
            self._gathered.clear()
        wiring = Wiring()
        told, news_for, began = wiring.told, wiring.news_for, self._time()
        for name, stage in self.stages.items():
            heard = news_for(stage, inputs[name])
            told[name] = self._heard(name, stage.step(*heard, first, blocks=blocks))
            began = stage.was_busy_since(began)
        self._note_newest(ts)
        self._forgetful = self._budget.look_after(self.stages.values(), first, self._arrived)
        return self._reporter.report(told, self._standing)

    def _standing(self, name: str) -> Standing:
        return Standing.of(self.stages[name])

    def _heard(self, name: str, news: News) -> News:
        """News as its readers see it: carried to them, and what a void takes back is looked up."""
        if self._carry is not None:
            news = self._carry(news)
        ledger = self._ledgers.get(name)
        return news if ledger is None else ledger.read(news)

    def _note_newest(self, ts: Ints) -> None:
        newest = int(ts[0]) if len(ts) == 1 else int(np.maximum.reduce(ts, initial=-1))
        if newest <= self._newest:
            return
        if all(newest > (s.clock or 0) + self._max_skew for s in self.stages.values()):
            # An event that is implausibly far ahead says nothing about the time.
            newest = int(ts.max(initial=-1, where=ts <= self._sound()))
        self._newest = max(self._newest, newest)

    def _sound(self) -> int:
        """A time beyond this is implausibly far ahead."""
        return max([stage.clock or 0 for stage in self.stages.values()]) + self._max_skew

    def advance(self, by: Duration | Mapping[Any, Duration]) -> Parts:
        """Time passes while nothing happens."""
        if isinstance(by, Mapping):
            raise OptionError('expected a duration; a mapping from keys needs order="key"')
        self._flush()
        clocks = [stage.unit.clock for stage in self.stages.values()]
        now = max((clock for clock in clocks if clock is not None), default=None)
        passed = microseconds(by, "by")
        if now is None or not passed:
            return []
        tick = self._from_nowhere(
            EventBatch(np.array([now + passed]), np.zeros(1, np.int32), (TICK,))
        )
        # Each level hears of it after the news that it causes on the level below, so nothing is
        # late.
        inputs = {
            name: self.stages[name].arrivals(
                Inputs(tick, self._nobody(tick), self._arrived + level)
            )
            for name, level in self._levels.items()
        }
        return self.take(Readings(inputs, tick.ts, 1 + self._depth))

    def finish(self, *, advance: bool) -> Parts:
        """The stream has ended: everything settles."""
        self._flush()
        wiring = Wiring()
        told = wiring.told
        time = END if advance else self._newest
        nothing, last = self._from_nowhere(EventBatch.concat([])), self._arrived
        empty = Inputs(nothing, self._nobody(nothing), last)
        began = self._time()
        for name, stage in self.stages.items():
            arrivals = stage.arrivals(empty)
            news = self._heard(name, stage.step(*wiring.news_for(stage, arrivals), last))
            told[name] = news.join(self._heard(name, stage.finish(last, time)))
            began = stage.was_busy_since(began)
        return self._reporter.report(told, self._standing)

    def excuse(self, sources: Sequence[Any]) -> None:
        """Do not wait for these sources until they are heard again."""
        self._flush()
        numbers = [] if self._sources is None else self._sources.known(sources)
        for stage in self.stages.values():
            if stage.unit.clocks is not None:
                stage.unit.clocks.excuse(numbers)

    def _from_nowhere(self, batch: EventBatch) -> EventBatch:
        """Something that comes from no source."""
        if self._sources is not None:
            batch.source = np.zeros(len(batch), np.int64)
        return batch

    def _nobody(self, batch: EventBatch) -> Coded | None:
        """The keys of something that belongs to no key: time passes for all."""
        return None if self._options.by is None else Coded.plain([None] * len(batch))

    # Speculation

    def set_attenuation(self, values: Mapping[str, float]) -> None:
        self._flush()
        for name, stage in self.stages.items():
            stage.unit.attenuation = values[name]

    def loads(self) -> dict[str, Load]:
        """What each stage did since the last call."""
        self._flush()
        return {name: stage.load() for name, stage in self.stages.items()}

    @property
    def sure_clock(self) -> int | None:
        self._flush()
        clocks = [stage.unit.sure_clock for stage in self.stages.values()]
        known = [clock for clock in clocks if clock is not None]
        return min(known) if len(known) == len(clocks) else None

    def stats(self, span: Span) -> dict[str, DetectorStats]:
        """Readings by detector; the loads are those of `span`."""
        self._flush()
        return {name: stage.stats(span) for name, stage in self.stages.items()}

    # Checkpoints

    def state_of(self, volumes: VolumeWriter) -> dict[str, Any]:
        """Everything needed to resume elsewhere, as data; history is in volumes."""
        self._flush()
        stages = {
            name: dumps(stage.state_of(volumes), f"the state of detector {name!r}")
            for name, stage in self.stages.items()
        }
        return {
            "arrived": self._arrived,
            "newest": self._newest,
            "stages": stages,
            "provisional": self._reporter.provisional,
        }

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        """Resume from what `state_of` kept."""
        whole = shaped(kept, OrderState, "the engine")
        self._arrived, self._newest = whole["arrived"], whole["newest"]
        self._reporter.provisional = whole["provisional"]
        for name, stage in self.stages.items():
            attenuation = stage.unit.attenuation
            what = f"the checkpoint of detector {name!r}"
            state: Any = shaped(loads(whole["stages"][name], what), StageState, what)
            stage.resume(state, volumes)
            check_rows(state, stage.unit)
            stage.unit.attenuation = attenuation
            if name in self._ledgers:
                self._ledgers[name].note(stage.tactic.outputs())
