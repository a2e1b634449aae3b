"""The tactic of windows: a splitter, instances and a merger behind one ordering unit.

A batch of events goes to the splitter, what the splitter has to say goes to the instances, and what
they make goes to the merger. When all have answered, the stage tells what has changed. So each part
takes its own snapshots and goes back alone, and to the engine it is one detector.

A checkpoint holds what the splitter has: events, windows, and how to go on cutting; what no longer
changes is written once. After a restart the instances get all of it again. What they make is the
same, so the outputs that are remembered are those. Instances that outlive the engine
(`betimes.windows.chain`) do not; then a checkpoint also holds what the merger has.

If the operator fails at an event, the splitter leaves the event out, as if it had never come, and
cuts again; as for any detector, that counts only once nothing can change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any

from betimes.engine.news.digests import encode
from betimes.engine.news.outputs import TIME, Output, Outputs, Place
from betimes.engine.snapshots.pages import Page
from betimes.engine.snapshots.segments import read_segments
from betimes.engine.snapshots.spacing import parse_snapshots
from betimes.engine.snapshots.weights import ROW, weight_of_event
from betimes.engine.stages.rows import RowArrivals
from betimes.engine.stages.rows.history import EventRows
from betimes.engine.stages.runner import DetectorFailed
from betimes.engine.stages.tactic import END, ColumnReplay, Moment, Setting, Told
from betimes.model.change import content, spelled_cause
from betimes.model.event import Event
from betimes.model.volumes import Ref, VolumeReader, VolumeWriter
from betimes.windows.keeping import begins, between, page_of, rest_of, resume_key
from betimes.windows.merging import Merger
from betimes.windows.messages import FAILED, MADE, Message
from betimes.windows.operators import OperatorSpec
from betimes.windows.plan import Windowed
from betimes.windows.schedules import parse_schedule
from betimes.windows.splitter import Splitter
from betimes.windows.splitting import Entry, KeySplitter
from betimes.windows.team import Inline, MakeTeam, Processes, Recruit, Stuck

Why = tuple[Place, str, Event]
"""Where a key changed first, what happened, and to which event."""


class WindowTactic(RowArrivals):
    """Runs a windowed operator."""

    weighs = False

    def __init__(
        self, plan: Windowed, spec: OperatorSpec, setting: Setting, *, team: MakeTeam | None = None
    ) -> None:
        super().__init__(setting)
        self._window = plan.window
        snapshots = plan.snapshots or setting.options.snapshots
        self._splitter = Splitter(
            plan.window, plan.instances, parse_schedule(plan.schedule, plan.window),
            parse_snapshots(snapshots), time=setting.time, fail=self._fail, mend=self._mend,
        )  # fmt: skip
        make = team or (Processes if plan.apart else Inline)
        recruit = Recruit(spec, snapshots)
        self.team = make(recruit, plan.instances, self._splitter.everything_for, setting.time)
        self._stuck: dict[tuple[Any, Place], str] = {}
        """Where the operator fails, except at events that are left out."""
        self._merger = Merger(once=spec.operator().once and plan.window.overlaps)
        self._outputs: dict[Any, dict[Place, list[Output]]] = {}
        """What is out, by key and cause."""
        self._passed = -1
        self._due: list[tuple[int, bytes, int, Any]] = []
        """When time ends a window, and of which key; earliest first."""
        self._armed: dict[Any, int] = {}
        self._why: dict[Any, Why] = {}
        """The keys that changed in this batch before what they had handled."""

    # Time

    @property
    def passed(self) -> int | None:
        return self._passed

    @property
    def next_due(self) -> int:
        return self._due[0][0] if self._due else END

    def let_pass(self, time: int) -> None:
        self._passed = max(self._passed, time)

    def _arm(self, key: KeySplitter) -> None:
        deadline = key.cutter.deadline
        if deadline is not None and self._armed.get(key.key) != deadline:
            self._armed[key.key] = deadline
            heappush(self._due, (deadline, encode(key.key), key.ordinal, key.key))

    def _keys_due(self, time: int) -> list[Any]:
        found = []
        while self._due and self._due[0][0] <= time:
            deadline, _, _, key = heappop(self._due)
            if self._armed.get(key) == deadline:
                del self._armed[key]
                found.append(key)
        return found

    # Handling events

    def withdraw(self, output: Output, at: int, final_to: int) -> int | None:  # noqa: ARG002
        row = self._below.withdraw(output.id)
        if row is not None:
            return row
        key, place = self._key(output), output.place
        self._splitter.key(key).remove(place, at)
        self._setting.failures.mend(key, place, place)
        self._note(key, (place, "retracted", output.event))
        return None

    def _note(self, key: Any, why: Why) -> None:
        known = self._why.get(key)
        if known is None or why[0] < known[0]:
            self._why[key] = why

    def handle(self, events: EventRows, moment: Moment) -> Iterator[Told]:
        splitter, counts = self._splitter, self._setting.counts
        if events.rank is not None:
            events = events.sorted()
        counts.handled += len(events)
        touched = self._take_in(events)
        before = self._passed
        self._passed = max(self._passed, moment.time)
        if self._passed > before:
            touched.update(dict.fromkeys(self._keys_due(self._passed)))
        disturbed = [splitter.key(key) for key in touched if splitter.key(key).back]
        for key in touched:
            splitter.key(key).advance(self._passed, moment.certain)
            splitter.tell(splitter.key(key))
        self._run(moment, touched)
        counts.replays += len(disturbed)
        yield from self._changes(touched, moment)
        splitter.costs.note_batch(len(disturbed), 0, max(len(touched), 1))
        for key in touched:
            splitter.key(key).rest()
            self._arm(splitter.key(key))
            splitter.watch(splitter.key(key))
        self._why = {}

    def _take_in(self, events: EventRows) -> dict[Any, None]:
        """Give the splitter its events; return the keys that have something to do."""
        # In a fixed order: those below may take things back in any.
        touched: dict[Any, None] = dict.fromkeys(sorted(self._why, key=encode))
        by_key: dict[Any, list[Entry]] = {}
        at = events.at.tolist()
        for row, place in enumerate(events.places()):
            entry = Entry(place, events.events[row], at[row])
            by_key.setdefault(events.key(row), []).append(entry)
        for key, entries in by_key.items():
            touched[key] = None
            if self._splitter.key(key).put(entries):
                self._note(key, (entries[0].place, "late", entries[0].event))
        return touched

    def _run(self, moment: Moment, touched: dict[Any, None]) -> None:
        """Let the instances work until none of them fails."""
        splitter = self._splitter
        while parcels := splitter.parcels():
            failed: dict[tuple[Any, Place], str] = {}
            for kind, *message in self.team.deliver(parcels):
                if kind == FAILED:
                    key, place, text = message
                    if place[1] != TIME:
                        failed[key, place] = text
                else:
                    window, key, first, kept, items = message
                    touched[key] = None
                    self._merger.key(key).take(window, first, kept, items)
                    splitter.key(key).pages.touch(first)
            # The latest first: without an earlier one, a later one may not fail any more.
            for (key, place), text in sorted(failed.items(), key=lambda f: f[0][1], reverse=True):
                mine = splitter.key(key)
                self._setting.failures.note(key, place, self._failure(mine.event(place), text))
                mine.leave_out(place)
            for key in dict.fromkeys(key for key, _ in failed):
                splitter.key(key).advance(self._passed, moment.certain)
                splitter.tell(splitter.key(key))
            if self.team.stuck is not None:
                self._note_stuck(self.team.stuck)

    def _note_stuck(self, stuck: dict[int, list[Stuck]]) -> None:
        """Windows that fail where no event can be left out wait for a late one to repair that."""
        now = _where(stuck)
        for key, place in self._stuck.keys() - now.keys():
            self._setting.failures.mend(key, place, place)
        for (key, place), text in now.items():
            if self._stuck.get((key, place)) != text:
                ends = place[1] == TIME
                event = None if ends else self._splitter.key(key).event(place)
                self._setting.failures.note(key, place, self._failure(event or place[0], text))
        self._stuck = now

    def _failure(self, at: Event | int, text: str) -> DetectorFailed:
        where = repr(at) if isinstance(at, Event) else spelled_cause("the end of a window", at)
        return DetectorFailed(f"detector {self._setting.node.name!r} failed at {where}: {text}")

    def _fail(self, key: Any, place: Place, event: Event, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self._setting.failures.note(key, place, self._failure(event, text))

    def _mend(self, key: Any, place: Place) -> None:
        self._setting.failures.mend(key, place, place)

    # Outputs

    def _changes(self, touched: Iterable[Any], moment: Moment) -> Iterator[Told]:
        """What has changed: of each key, what is gone and what is new."""
        fresh: list[Output] = []
        for key in touched:
            merger = self._merger.key(key)
            gone: list[Output] = []
            todo: list[tuple[Place, int, Event]] = []
            mine = self._outputs.setdefault(key, {})
            for cause, events in merger.changes():
                gone += self._compare(key, mine, cause, events, todo)
            self._setting.outputs.unmake(gone)
            new = [self._commit(key, mine, *made, moment) for made in todo]
            if gone:
                place, what, event = self._why.get(key, (gone[0].cause, "late", gone[0].event))
                why = f"{what} {event.type} at {event.ts}"
                yield ColumnReplay(
                    key, place, moment.last, True, why, gone=Outputs.of(gone), fresh=Outputs.of(new)
                )
            else:
                fresh += new
        if fresh:
            fresh.sort(key=lambda output: output.cause)
            yield Outputs.of(fresh)

    def _compare(
        self,
        key: Any,
        mine: dict[Place, list[Output]],
        cause: Place,
        events: list[Event],
        todo: list[tuple[Place, int, Event]],
    ) -> list[Output]:
        """What is gone at a cause; what is new is put on the list, with its number."""
        old = mine.pop(cause, [])
        stay = {o.number: o for o in old if o.number < len(events) and _same(o, events[o.number])}
        todo += [(cause, n, event) for n, event in enumerate(events) if n not in stay]
        if stay:
            mine[cause] = list(stay.values())
        if len(stay) < len(old):
            self._splitter.key(key).pages.touch(cause)
        return [output for output in old if output.number not in stay]

    def _commit(
        self,
        key: Any,
        mine: dict[Place, list[Output]],
        cause: Place,
        n: int,
        event: Event,
        moment: Moment,
    ) -> Output:
        splitter, maker = self._splitter.key(key), self._setting.outputs
        known = splitter.known(cause)
        if cause[1] == TIME:
            when = max(maker.path.reaches(cause[0]), known)
            at = min(moment.last, when) if when >= 0 else moment.last
            output = maker.make(event, n, cause, "time", at, key)
        else:
            output = maker.make(event, n, cause, splitter.event(cause).type, known, key)
        splitter.pages.touch(cause)
        here = mine.setdefault(cause, [])
        here.append(output)
        here.sort(key=lambda each: each.number)
        return output

    # Memory

    def forget(self, before: int) -> Iterable[Sequence[Output]]:
        for splitter in self._splitter.ripe(before):
            key = splitter.key
            known = {cut.id for cut in splitter.cuts}
            settled = splitter.forget(before)
            left = {cut.id for cut in splitter.cuts}
            self._merger.key(key).forget(settled, known - left, self._earliest(splitter))
            for where in [w for w in self._stuck if w[0] == key and w[1] <= settled]:
                del self._stuck[where]  # nothing repairs it any more
            mine = self._outputs.get(key, {})
            for cause in [cause for cause in mine if cause <= settled]:
                splitter.pages.touch(cause)
                yield mine.pop(cause)
            if not mine and self._merger.key(key).empty and self._splitter.give_up(splitter):
                del self._merger.keys[key]
                self._outputs.pop(key, None)
                self._armed.pop(key, None)
            else:
                self._splitter.watch(splitter)
        self.team.drop(self._splitter.parcels())

    def _earliest(self, key: KeySplitter) -> int:
        """No window that is left, or that begins later, begins before this time."""
        return min([key.last[0] - self._window.before, *(cut.start for cut in key.cuts)])

    def history(self) -> list[tuple[int, int]]:
        found = []
        for splitter in self._splitter.keys.values():
            for start, size in splitter.pieces():
                weight = size * (ROW + weight_of_event(splitter.entries[-1].event)) if size else 0
                found.append((max(start, 0), weight))
        return found

    @property
    def remembered(self) -> int:
        return sum(splitter.remembered for splitter in self._splitter.keys.values())

    def snapshots(self) -> tuple[int, int]:
        saves = sum(len(splitter.saves) for splitter in self._splitter.keys.values())
        return saves, 0

    def parts(self) -> dict[str, dict[str, float]]:
        splitters = list(self._splitter.keys.values())
        mergers = list(self._merger.keys.values())
        found: dict[str, dict[str, float]] = {
            "splitter": {
                "keys": len(splitters),
                "kept": sum(len(splitter.entries) for splitter in splitters),
                "open": sum(len(splitter.open) for splitter in splitters),
                **self._splitter.counts,
            }
        }
        pairs = zip(self.team.counts, self._splitter.loads, strict=True)
        for number, (counts, open_) in enumerate(pairs):
            found[f"instance {number}"] = {"open": open_, **counts}
        windows, removed = (sum(m.windows for m in mergers), sum(m.removed for m in mergers))
        found["merger"] = {"windows": windows, "removed": removed}
        return found

    # Checkpoints

    def outputs(self) -> Outputs:
        each = [self._outputs.get(key, {}) for key in self._splitter.keys]
        return Outputs.of([o for mine in each for cause in sorted(mine) for o in mine[cause]])

    def state_of(self, volumes: VolumeWriter, settled: int) -> dict[str, Any]:
        return self._arrivals_kept() | {
            "passed": self._passed,
            "splitter": self._splitter.state_of(),
            "keys": [
                (
                    key,
                    rest_of(splitter),
                    self._merger.key(key).state_of(),
                    self._written(splitter, volumes, settled),
                )
                for key, splitter in self._splitter.keys.items()
            ],
            "stuck": self.team.stuck or {},
        }

    def _written(self, splitter: KeySplitter, volumes: VolumeWriter, settled: int) -> list[Ref]:
        """The pages of a key, with what is out and, if nobody can tell it again, what was made."""
        mine, made = self._outputs.get(splitter.key, {}), self._merger.key(splitter.key).known
        causes, stays = sorted(mine), self.team.stays

        def written(page: Page, low: Place | None, high: Place | None) -> Any:
            here = between(causes, lambda cause: cause, low, high)
            cuts = between(splitter.cuts, begins, low, high) if stays else []
            return (
                page.start,
                page_of(splitter, low, high, sent=stays),
                Outputs.of([o for cause in here for o in mine[cause]]).state_of(),
                [(c.id, made[c.id].first, made[c.id].items()) for c in cuts if c.id in made],
            )

        refs = []
        for page, low, high in splitter.pages.borders():
            done = high is not None and high[0] <= settled
            state = partial(written, page, low, high)
            refs.append(volumes.put(page, state, self._setting.what, done=done))
        return refs

    def resume(self, kept: dict[str, Any], volumes: VolumeReader) -> None:
        self._resume_arrivals(kept)
        self._passed = kept["passed"]
        told: list[Message] = []
        for key, rest, merged, refs in kept["keys"]:
            self._resume_key(key, rest, refs, volumes, told)
            self._merger.key(key).resume(merged)
        self._splitter.resume(kept["splitter"])
        if self.team.stuck is not None:
            self.team.stuck.update(kept["stuck"])
            self._stuck = _where(self.team.stuck)
        if not self.team.stays:
            told += self.team.deliver(self._splitter.everything())
        self._rebuild(told)

    def _resume_key(
        self, key: Any, rest: Any, refs: list[Ref], volumes: VolumeReader, told: list[Message]
    ) -> None:
        splitter, mine, pages = self._splitter.key(key), dict[Place, list[Output]](), []

        def read(state: Any) -> Page:
            start, page, outputs, made = state
            pages.append(page)
            for output in Outputs.resumed(outputs):
                mine.setdefault(output.cause, []).append(output)
            told.extend((MADE, window, key, first, 0, items) for window, first, items in made)
            return Page(start, len(page[0]))

        splitter.pages.all = read_segments(refs, volumes, read, self._setting.what)
        resume_key(splitter, rest, pages)
        if mine:
            self._outputs[key] = mine
        self._arm(splitter)
        self._splitter.watch(splitter)

    def _rebuild(self, told: Iterable[Message]) -> None:
        """The merger hears again what is out already."""
        for kind, *message in told:
            if kind == FAILED:
                assert message[1][1] == TIME, "what failed at an event was left out"
                continue
            window, key, first, kept, items = message
            self._merger.key(key).take(window, first, kept, items)
        for key, merger in self._merger.keys.items():
            for _ in merger.changes():
                pass
            merger.forget(merger.settled, (), self._earliest(self._splitter.key(key)))


def _where(stuck: dict[int, list[Stuck]]) -> dict[tuple[Any, Place], str]:
    return {(key, place): text for mine in stuck.values() for key, place, text in mine}


def _same(output: Output, event: Event) -> bool:
    """Whether an output is of this event; 1, 1.0 and True are equal, but not the same."""
    mine = output.event
    return mine is event or (mine == event and content(mine) == content(event))
