"""A node: the stages of a hierarchy that live in one place, and what waits for them there.

Whenever something comes, each stage, lowest level first, takes as many rounds as it can (see
`rounds.py`), and what it says goes to the homes of its readers and to the driver.

**A move.** If a round gives a stage another home, the first home it had sends its state there
before it takes that round, and lets go of it unless it stays a home. So there are two ways to move:

* *at once*: the round names only the new home, and the stage pauses while its state is in transit;
* *side by side*: a round names both. The old home goes on speaking, while the new one gets the
  state, takes the rounds since then, and catches up; a later round names only the new one.

Nothing is forwarded in either: publishers know from the round where its readers are.

Messages about rounds for which no stage here has any use are dropped. A state is taken once for
each move, so one that is repeated, or was overtaken by a later move, has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from betimes.engine import EngineOptions, Hierarchy
from betimes.engine.budget import Budget
from betimes.engine.changes import Standing
from betimes.engine.news.ledger import Ledger
from betimes.engine.news.news import News
from betimes.engine.news.wiring import Wiring
from betimes.engine.reading.inputs import Inputs
from betimes.engine.stages.driver import Stage
from betimes.engine.stored import StageState, check_rows
from betimes.engine.wired import wired
from betimes.model import TICK, EventBatch
from betimes.model.codec import dumps, loads
from betimes.model.coded import Coded
from betimes.model.stored import shaped
from betimes.model.volumes import VolumeReader, VolumeWriter
from betimes.ordering.workspace import Workspace
from betimes.placement.rounds import (
    ARRIVE,
    DRIVER,
    END,
    PASS,
    Ask,
    Begin,
    Message,
    Reached,
    Round,
    Said,
    State,
    Told,
)


class _Taken:
    """A round as a node knows it."""

    def __init__(
        self, whole: Round, homes: dict[str, tuple[str, ...]], before: _Taken | None
    ) -> None:
        self.whole = whole
        self.homes = homes
        self.before: dict[str, tuple[str, ...]] = homes if before is None else before.homes
        """Where stages lived in the round before."""
        self.calm = self.before is homes and not whole.saved
        """Whether everyone stays where they are."""
        self._audiences: dict[str, tuple[str, ...]] = {}
        if before is not None and before.homes is homes:
            self._audiences = before._audiences
        self.saved = set[str]()
        """The stages whose states the driver got."""
        self.inputs: dict[int, Inputs] = {}
        """The input as stages read it; for time that passes, by level."""

    def audience(self, name: str, readers: list[str], here: str) -> tuple[str, ...]:
        """Who has to hear what a stage says: the homes of its readers, and the driver."""
        known = self._audiences.get(name)
        if known is None:
            homes = {home for reader in readers for home in self.homes[reader]}
            known = self._audiences[name] = (*sorted(homes - {here}), DRIVER)
        return known

    def newcomers(self, stage: str) -> tuple[str, ...]:
        return tuple(home for home in self.homes[stage] if home not in self.before[stage])


class Node:
    """The stages that live in one place."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        options: EngineOptions,
        *,
        time: Callable[[], float],
        cores: int | None = None,
    ) -> None:
        self.name = ""
        self.stages: dict[str, Stage] = {}
        self._hierarchy = hierarchy
        self._options = options
        self._time = time
        self._cores = cores
        self._levels, self._depth = hierarchy.levels(), hierarchy.depth
        self._readers = {
            node.name: [other.name for other in hierarchy if set(other.on) & set(node.emits)]
            for node in hierarchy
        }
        self._workspace = Workspace()
        self._ledgers: dict[str, Ledger] = {}
        self._budgets: dict[str, Budget] = {}
        self._next: dict[str, int] = {}
        """The next round of each stage that is here, or is expected."""
        self._rounds: dict[int, _Taken] = {}
        self._early: dict[int, Round] = {}
        """Rounds that came before those that precede them."""
        self._wirings: dict[int, Wiring] = {}
        self._newest: _Taken | None = None
        self._stays: dict[str, int] = {}
        """Up to which round stages stay at least."""
        self._first = -1
        """The first round that it will hear of."""
        self._adopted: dict[str, int] = {}
        """With which round each stage came here last, or left."""
        self._given: dict[str, int] = {}
        """With which round the state of each stage was sent away last."""

    def receive(self, message: Message) -> list[Said]:
        """Take a message in, and do what can be done now."""
        if isinstance(message, Begin):
            self._begin_at(message)
        elif isinstance(message, Told):
            if message.number >= self._oldest():
                told = self._wirings.setdefault(message.number, Wiring()).told
                told.setdefault(message.stage, message.news)
        elif isinstance(message, State):
            self._adopt(message)
        elif isinstance(message, Ask):
            done = [name for name in self.stages if self._next[name] == message.number]
            return [((DRIVER,), self._state(name, message.number)) for name in done]
        elif isinstance(message, Round):
            self._expect(message)
        if not self.name:
            return []  # until it begins, a node only collects
        self._note_rounds()
        return self._run()

    # What comes in

    def _begin_at(self, begin: Begin) -> None:
        """The node learns its name; what it got before that may be older than it can use."""
        if self.name:
            return
        self.name, self._first, self._stays = begin
        for name in [name for name, number in self._next.items() if number < self._first]:
            del self.stages[name], self._next[name], self._adopted[name]
        for name in self._stays:
            self._next.setdefault(name, self._first)

    def _expect(self, whole: Round) -> None:
        """A round has come; what is said again to a node without a name says more than before."""
        if whole.number not in self._early or not self.name:
            self._early[whole.number] = whole

    def _note_rounds(self) -> None:
        """Rounds become known in their order, because each builds on the homes of the last."""
        while (whole := self._early.pop(self._after(), None)) is not None:
            before, number = self._newest, whole.number
            if whole.homes is None:
                assert before is not None, "the first round of a node says who lives where"
                homes = before.homes
            else:
                homes = whole.homes
            taken = self._newest = self._rounds[number] = _Taken(whole, homes, before)
            for name, here in homes.items():
                comes = before is None or self.name in taken.newcomers(name)
                if comes and self.name in here and name not in self._next:
                    self._next[name] = number
                    if whole.fresh:
                        self._begin(name, number)
        after = self._after()
        self._early = {number: whole for number, whole in self._early.items() if number > after}

    def _after(self) -> int:
        """The round after the newest one that is known."""
        return self._first if self._newest is None else self._newest.whole.number + 1

    def _begin(self, name: str, number: int) -> Stage:
        """A stage is here, and takes this round next."""
        stage = self.stages[name] = wired(
            self._hierarchy, self._options, time=self._time, cores=self._cores,
            workspace=self._workspace, names=[name],
        )[name]  # fmt: skip
        if stage.voids:
            self._ledgers[name] = Ledger()
        self._budgets[name] = Budget(self._options.kept.budget)
        self._budgets[name].sharers = len(self._levels)
        self._next[name] = self._adopted[name] = number
        return stage

    def _adopt(self, state: State) -> None:
        """A stage has come from elsewhere."""
        name, known = state.stage, self._adopted.get(state.stage)
        if known is not None:
            # A node without a name is new: the earlier state is that from which it has to speak.
            stale = state.number <= known if self.name else state.number >= known
            if stale or (self.name and name in self.stages):
                return
        if self.name and state.number < self._first:
            return
        resume(self._begin(name, state.number), state.data)
        if name in self._ledgers:
            self._ledgers[name].note(self.stages[name].tactic.outputs())

    def _state(self, name: str, number: int) -> State:
        return State(name, number, state_of(self.stages[name]))

    # What can be done

    def _run(self) -> list[Said]:
        """Let stages take rounds until all of them wait for something."""
        said: list[Said] = []
        went = True
        while went:
            here = [name for name in self._levels if name in self.stages]  # lowest first
            went = sum(self._turn(name, said) for name in here) > 0  # each of them gets a turn
        oldest = self._oldest()
        self._rounds = {n: taken for n, taken in self._rounds.items() if n >= oldest}
        self._wirings = {n: each for n, each in self._wirings.items() if n >= oldest}
        return said

    def _oldest(self) -> int:
        """The first round for which something here has a use."""
        return min(self._next.values(), default=self._after()) if self.name else -1

    def _turn(self, name: str, said: list[Said]) -> bool:
        """One round of a stage, if it can take it; whether that has changed anything."""
        number = self._next[name]
        taken = self._rounds.get(number)
        if taken is None:
            return False
        if not taken.calm and self._moves(name, taken, said):
            return True
        stage, wiring = self.stages[name], self._wirings.setdefault(number, Wiring())
        for publisher in stage.reads:
            if publisher not in wiring.told:
                return False
        news = wiring.told[name] = self._step(stage, taken, wiring)
        self._next[name] = number + 1
        if taken.homes[name][0] != self.name:
            said.append(((DRIVER,), Reached(self.name, name, number)))
            return True
        standing = Standing.of(stage) if news.late or news.rejected else None
        load = stage.load() if taken.whole.measured else None
        spoken = Told(name, number, news, stage.clock, standing, load)
        said.append((taken.audience(name, self._readers[name], self.name), spoken))
        return True

    def _moves(self, name: str, taken: _Taken, said: list[Said]) -> bool:
        """Send the state of a stage to those who need it before it takes a round; let go of it."""
        number = taken.whole.number
        new = taken.newcomers(name)
        if new and taken.before[name][0] == self.name and self._given.get(name) != number:
            self._given[name] = number
            said.append((new, self._state(name, number)))
        if taken.whole.saved and taken.before[name][0] == self.name and name not in taken.saved:
            taken.saved.add(name)
            said.append(((DRIVER,), self._state(name, number)))
        leaves = self.name in taken.before[name] and self.name not in taken.homes[name]
        if leaves and number > self._stays.get(name, -1):
            self._leave(name, number)
            return True
        return False

    def _leave(self, name: str, number: int) -> None:
        """A stage lives elsewhere from this round on; it may come back in a round that is known."""
        del self.stages[name], self._next[name]
        self._adopted[name] = number  # a state from before would be a repeated one
        comes = [
            n for n, t in self._rounds.items() if n > number and self.name in t.newcomers(name)
        ]
        if comes:
            self._next[name] = min(comes)

    def _step(self, stage: Stage, taken: _Taken, wiring: Wiring) -> News:
        """Let a stage take a round."""
        name, whole = stage.node.name, taken.whole
        if whole.attenuation is not None:
            stage.unit.attenuation = whole.attenuation[name]
        began = self._time()
        first = whole.first
        arrivals = stage.arrivals(self._inputs(taken, self._levels[name]))
        news = self._complete(name, stage.step(*wiring.news_for(stage, arrivals), first))
        if whole.kind != END:
            count = len(whole.batch) if whole.kind == ARRIVE else 1 + self._depth
            self._budgets[name].look_after([stage], first, first + count)
        else:
            news = news.join(self._complete(name, stage.finish(first, whole.time)))
        stage.was_busy_since(began)
        return news

    def _complete(self, name: str, news: News) -> News:
        """News in which what a void takes back has been looked up."""
        ledger = self._ledgers.get(name)
        return news if ledger is None else ledger.read(news)

    def _inputs(self, taken: _Taken, level: int) -> Inputs:
        """What comes in from outside, as stages read it."""
        whole, by = taken.whole, self._options.by
        shift = level if whole.kind == PASS else 0
        known = taken.inputs.get(shift)
        if known is None:
            batch, groups = whole.batch, None
            if whole.kind == PASS:
                batch = EventBatch(np.array([whole.time]), np.zeros(1, np.int32), (TICK,))
            if by is not None:
                nobody = Coded.plain([None] * len(batch))
                groups = Coded.of(batch, by, "a node") if whole.kind == ARRIVE else nobody
            known = taken.inputs[shift] = Inputs(batch, groups, whole.first + shift)
        return known


def state_of(stage: Stage) -> bytes:
    """A stage with its history, as bytes."""
    volumes, what = VolumeWriter(), f"the state of detector {stage.node.name!r}"
    kept = stage.state_of(volumes)
    return dumps([kept, stage.unit.attenuation, volumes.finish().table], what)


def resume(stage: Stage, data: bytes) -> None:
    """Resume from what `state_of` kept."""
    what = f"the state of detector {stage.node.name!r}"
    kept, attenuation, table = loads(data, what)
    state: Any = shaped(kept, StageState, what)
    stage.resume(state, VolumeReader(table, {}))
    check_rows(state, stage.unit)
    stage.unit.attenuation = attenuation
