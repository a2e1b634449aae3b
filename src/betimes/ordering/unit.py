"""The ordering unit: takes a stream that is out of order, and returns it in order.

`OrderingUnit` is the public interface. It calls the compiled loop (`kernel`, which opens with the
algorithm) once per batch. It cuts a batch only where the loop's configuration changes: at the
borders of the blocks from which a clock is learned (`clock.py`), and, after the attenuation was
raised to 1, where the loop looks whether speculation is over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.model import (
    TICK,
    Duration,
    Event,
    EventBatch,
    OptionError,
    StreamEndedError,
    times,
)
from betimes.model.duration import or_off
from betimes.model.hints import known_options
from betimes.ordering import kernel
from betimes.ordering.clock import OFFSETS, REVIEW, ClockLearner, OffsetLearner, parse_clock
from betimes.ordering.duplicates import Duplicates
from betimes.ordering.loop import Loop, plain
from betimes.ordering.ordered import Ordered
from betimes.ordering.payloads import Payloads
from betimes.ordering.slack import SlackPolicy
from betimes.ordering.sources import QUIET, Clocks, Origin, Sources
from betimes.ordering.start import NOTHING_KNOWN, Start
from betimes.ordering.stats import OrderingStats, readings, reason
from betimes.ordering.step import NO_STILLNESS, NOBODY, NOTHING, Step, Stillness
from betimes.ordering.types import Types, from_outside
from betimes.ordering.workspace import Workspace

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_log = logging.getLogger("betimes")
_NOTHING: Any = (None, None, None)  # no payloads


class OrderingUnit:  # attributes: what it was told, what learns, types, arrays for single events
    """Holds each event back only as long as the delays in the stream require.

    Args:
        clock: event types that move the clock, or `"*"` for all. Default: the unit learns it.
        on: event types to order and hand out. Default: all.
        slack, margin, min_slack, max_slack, decay, max_late: see `SlackPolicy.parse`.
        attenuation: share of the slack to wait before an event is released. Default: 1.
        max_skew: how far ahead a clock event is believed at once. Default: 1 h; `"off"`: any.
        unique, remember: payload columns (source, number) that identify duplicates, and the
            number of events to remember for that. Default: none, 1,000,000.
        start: what is known before the first event. Default: nothing.
        source: the payload column that says which source an event comes from; each source has its
            own clock. Default: one clock.
        quiet: after this much stream time without an event, a source stops counting. Default:
            10 min; None: never.
        workspace: what it works in; units that take turns may share one. Default: its own.

    >>> unit = OrderingUnit(clock="A")
    >>> [
    ...     [e.type + str(e.ts) for e in unit.feed(Event(t, ts)).released.events]
    ...     for t, ts in [("A", 0), ("A", 2), ("C", 1), ("A", 4), ("B", 3), ("C", 5), ("A", 6)]
    ... ]
    [['A0'], ['A2'], [], ['C1'], [], [], ['B3']]
    >>> unit.stats.slack, unit.stats.late
    (3, 1)
    >>> unit
    OrderingUnit(clock A at 6, slack 3 us (largest), attenuation 1, 3 of 7 events held, 1 late)
    >>> [e.type + str(e.ts) for e in unit.finish().released.events]
    ['A4', 'C5', 'A6']
    """

    @known_options
    def __init__(
        self,
        *,
        clock: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
        slack: str | Duration | SlackPolicy = "largest",
        margin: float = 0.0,
        min_slack: Duration = 0,
        max_slack: Duration | None = None,
        decay: Duration | None = None,
        max_late: float = 0.01,
        attenuation: float = 1.0,
        max_skew: Duration | None = "1h",
        unique: tuple[str, str] | None = None,
        remember: int = 1_000_000,
        start: Start = NOTHING_KNOWN,
        source: str | Sources | None = None,
        quiet: Duration | None = QUIET,
        workspace: Workspace | None = None,
    ) -> None:
        policy = slack if isinstance(slack, SlackPolicy) else SlackPolicy.parse(
            slack, margin=margin, min_slack=min_slack, max_slack=max_slack,
            decay=decay, max_late=max_late,
        )  # fmt: skip
        self._clock = parse_clock(clock)
        wanted = None if on is None else frozenset((on,) if isinstance(on, str) else on)
        skew = or_off(max_skew, "max_skew")
        self._learner = ClockLearner(skew) if self._clock is None else None
        self._offsetter = OffsetLearner(skew) if len(self._clock or ()) > 1 else None
        self._duplicates = None if unique is None else Duplicates(unique, remember)
        self._sources = Sources(source) if isinstance(source, str) else source
        silence = None if source is None else or_off(quiet, "quiet")
        self._loop = Loop(policy, skew, workspace or Workspace(), start.slack, quiet=silence)
        self._state = self._loop.state
        self.attenuation = attenuation
        self._payloads, self._suspects = Payloads(), dict[int, EventBatch]()
        self._ended, self._contradictions = False, 0
        offsets = {} if self._offsetter is None else start.offsets
        self._types = Types(wanted, self._clock, self._learner, offsets)
        self._single = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)
        self._helpers = (self._sources, self._learner, self._offsetter, self._duplicates)
        self._alone = self._helpers[1:] == (None,) * 3
        """Whether nothing but the loop looks at events without payloads, once it has a clock."""
        self._is_plain = False
        """Whether the loop is all that events without payloads need; it stays so."""
        if self._learner is not None and start.clock is not None:
            self._learner.begin_with(self._types.code(start.clock), start.clock)

    def __repr__(self) -> str:
        return f"OrderingUnit({self.stats.brief()})"

    @property
    def policy(self) -> str:
        """The name of the slack policy."""
        return self._loop.policy.name

    @property
    def max_skew(self) -> int:
        """How far ahead a clock event may be."""
        return int(self._state[kernel.MAX_SKEW])

    @property
    def attenuation(self) -> float:
        """The share of the slack to wait: 1 = pure buffering, 0 = no waiting."""
        return self._loop.attenuation

    @attenuation.setter
    def attenuation(self, value: float) -> None:
        if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= 1):
            raise OptionError(f"expected attenuation to be from 0 to 1, got attenuation={value!r}")
        self._loop.attenuation = value

    def feed(
        self,
        events: EventBatch | pa.Table | pa.RecordBatch | Iterable[Event] | Event,
        *,
        blocks: bool = False,
        certain: Ints = NOBODY,
    ) -> Ordered:
        """Take events in order of arrival; return those that need not wait any longer.

        With `blocks`, only the events of one source are in that order, and each source may come as
        a block: nothing settles until every source of the batch has been heard. `certain` says how
        far the stages below were certain before each event, if the unit listens to any.
        """
        if self._ended:
            raise StreamEndedError(
                "expected no more events after finish(), but feed() was called; "
                "make a new OrderingUnit for a new stream"
            )
        if type(events) is Event and self._is_plain and self._sources is None:
            ts, code = events.ts, self._types.codes.get(events.type)
            if code is not None:
                if type(ts) is not int or not 0 <= ts <= times.LAST:
                    times.refuse(times.from_values([ts])[1])
                return self._feed_one(ts, code, events)
        batch = events if isinstance(events, EventBatch) else from_outside(events)
        if self._sources is not None and batch.source is None:
            if self._sources.crowded:
                self._sources.make_way([self])
            batch = self._sources.told_apart(batch)
        if blocks and batch.source is not None and self._loop.clocks is not None:
            self._loop.clocks.expect(batch.source)
        single = len(batch.ts) == 1 and batch.payload is None and batch.head_start is None
        if single and self._is_plain and self._sources is None:
            return self._feed_one(batch.ts.item(0), self._types.translate(batch).item(0), batch)
        if self._duplicates is not None:
            batch = self._duplicates.drop(batch)
        before, codes = self._loop.slack, self._types.translate(batch)
        singly = self._loop.compares and self._may_be_suspect(batch.ts)
        steps: list[Step] = []
        rejected: list[EventBatch] = []
        origin = None if batch.source is None else Origin(plain(batch.source), certain)
        low = 0
        while low < len(batch) or not steps:
            high = min(low + 1, len(batch)) if singly else self._cut(low, len(batch), codes)
            part = batch if high - low == len(batch) else batch.part(low, high)
            mine = None if origin is None else origin.part(slice(low, high))
            steps.append(self._step(part, codes[low:high], rejected, mine))
            low = high
        return self._answer(steps[0] if len(steps) == 1 else Step.join(steps), rejected, before)

    def order(self, batch: EventBatch, *, blocks: bool = False, certain: Ints = NOBODY) -> Step:
        """The same for somebody who keeps payloads elsewhere: numbers, and nothing else."""
        loop = self._loop
        usual = batch.source is None and self._is_plain and not loop.compares
        if not usual or len(batch.ts) > loop.next_look:
            return self.feed(batch, blocks=blocks, certain=certain).step
        codes = self._types.translate(batch)
        heads = None if batch.head_start is None else plain(batch.head_start)
        step = loop.run(self._types.table, plain(batch.ts), plain(codes), heads)
        if loop.suspects or self._suspects or len(step.rejected):
            self._put_aside(batch, self._state.item(kernel.ARRIVALS) - len(batch.ts), step.rejected)
        return step

    def finish(self) -> Ordered:
        """End the stream: hand out everything that is still held, in order, and settle it."""
        if self._loop.clock == kernel.NEVER and self._state[kernel.ARRIVALS]:
            _log.warning("%s; everything was held back until the end of the stream", self._why())
        self._ended = True
        return self._answer(self._loop.drain(), [], self._loop.slack)

    def state_of(self) -> dict[str, Any]:
        """Everything that `resume` needs, as plain data; payloads are not included."""
        return {
            "loop": self._loop.state_of(),
            "types": self._types.names,
            "table": self._types.table.copy(),
            "contradictions": self._contradictions,
            "suspects": {row: (int(e.ts[0]), e[0].type) for row, e in self._suspects.items()},
            "ended": self._ended,
            "helpers": [None if h is None else h.state_of() for h in self._helpers],
        }

    def resume(self, kept: dict[str, Any]) -> None:
        """Resume from what `state_of` returned, in a unit with the same options."""
        self._loop.resume(kept)
        self._types.resume(tuple(kept["types"]), kept["table"])
        self._is_plain = self._alone and self._state.item(kernel.UPDATES) >= 2
        self._contradictions, self._ended = kept["contradictions"], kept["ended"]
        self._suspects = {
            row: EventBatch.from_rows([Event(type, ts)])
            for row, (ts, type) in kept["suspects"].items()
        }
        for helper, state in zip(self._helpers, kept["helpers"], strict=True):
            if helper is not None:
                helper.resume(state)
        self._types.review()  # roles follow from what is known now, whatever was stored

    @property
    def buffer(self) -> EventBatch:
        """The events currently held, in order; those released but not settled come first."""
        ts, rows, codes = self._loop.held.copy()
        return EventBatch(ts, codes.astype(np.int32), self._types.names, self._payloads.take(rows))

    @property
    def held_rows(self) -> Ints:
        """The arrival numbers of the events currently held."""
        rows: Ints = self._loop.held[kernel.ROW]
        return rows

    @property
    def waiting_rows(self) -> Ints:
        """The arrival numbers of those of them that were not handed out yet."""
        rows: Ints = self.held_rows[int(self._state[kernel.RELEASED]) :]
        return rows

    @property
    def clock(self) -> int | None:
        """Stream time; None before the first clock event."""
        return None if self._loop.clock == kernel.NEVER else self._loop.clock

    @property
    def sure_clock(self) -> int | None:
        """Stream time if it is one, and no clock event so far is in doubt; otherwise None."""
        several = self._sources is not None
        doubt = several or self._loop.suspects or self._state[kernel.UPDATES] < 2
        return None if doubt else self.clock

    def stillness(self) -> Stillness:
        """For how long arrivals only wait and move the clock."""
        return self._loop.stillness() if self._is_plain and self._sources is None else NO_STILLNESS

    @property
    def suspect_rows(self) -> list[int]:
        """The arrival numbers of clock events that look implausible and are not judged yet."""
        return list(self._suspects) if self._suspects else []

    def last_heard(self) -> Ints:
        """When each source was heard last; those that it has yet to learn from count as well."""
        heard = NOBODY if self.clocks is None else self.clocks.last_heard()
        if self._learner is not None:
            heard[self._learner.sources()] = kernel.FAR
        return heard

    def forget(self, numbers: Ints) -> None:
        """These numbers will stand for other sources."""
        if self.clocks is not None:
            self.clocks.forget(numbers)

    @property
    def clocks(self) -> Clocks | None:
        """The clocks of its sources, if each has its own."""
        return self._loop.clocks

    def discard(self, rows: Sequence[int]) -> None:
        """Remove events from the buffer, by arrival number, as if they had never arrived."""
        self._loop.discard(rows)

    @property
    def stats(self) -> OrderingStats:
        """Counts and readings as of now."""
        dropped = 0 if self._duplicates is None else self._duplicates.dropped
        return readings(self._loop, self._types, self._sources, dropped, self._why())

    def _why(self) -> str:
        if self._learner is not None:
            return self._learner.reason
        counts = self._types.table[kernel.COUNT]
        came = [name for name, code in self._types.codes.items() if counts[code]]
        return reason(self._clock or (), came, moved=self._loop.clock != kernel.NEVER)

    def _cut(self, low: int, high: int, codes: Codes) -> int:
        """Where to cut the batch so that one step can handle the part before."""
        if high - low == 1:
            return high
        if self._state[kernel.UPDATES] < 2:
            moves = self._types.table[kernel.ROLE, codes[low:high]] & kernel.CLOCK
            high = min(high, low + int(moves.argmax()) + 1) if moves.any() else high
        high = min(high, low + self._loop.next_look)
        for block in (self._learner, self._offsetter):
            if block is not None:
                high = min(high, low + block.missing)
        return high

    def _doubt(self, ts: int, code: int, step: Step, origin: Origin | None) -> None:
        """Believe the first clock event until three others in a row are far behind it."""
        role, offset = self._types.table[[kernel.ROLE, kernel.OFFSET], code].tolist()
        if not role & kernel.CLOCK or (origin is not None and not origin.sources[-1]):
            return  # beside sources, what stages below have made moves no clock
        behind = ts + offset < self._loop.clock - int(self._state[kernel.MAX_SKEW])
        self._contradictions = self._contradictions + 1 if behind else 0
        if self._contradictions == kernel.CONFIRM:
            self._contradictions = 0
            step.settled = np.concatenate((step.settled, self._loop.restart()), axis=1)
            self._types.forget_delays()

    def _may_be_suspect(self, ts: Ints) -> bool:
        """Whether a batch may contain clock events that are implausibly far ahead.

        The quantile policy compares an event with those that arrived before it, and whether a
        suspect counts as arrived is known only once it is judged. Such batches are fed one event
        at a time.
        """
        if self._loop.suspects:
            return True
        known = np.array([] if self.clock is None else [self.clock], np.int64)
        leaps = np.diff(np.maximum.accumulate(np.concatenate((known, ts))))
        spread = self._types.table[kernel.OFFSET].max(initial=0)
        return bool(len(leaps) and leaps.max() > self._state[kernel.MAX_SKEW] - spread)

    def _step(
        self, batch: EventBatch, codes: Codes, rejected: list[EventBatch], origin: Origin | None
    ) -> Step:
        """Run the loop over a batch; add what it rejects to `rejected`."""
        heads = None if batch.head_start is None else plain(batch.head_start)
        first = int(self._state[kernel.ARRIVALS])
        if batch.payload is not None:
            wanted = np.flatnonzero(self._types.table[kernel.ROLE, codes] & kernel.BUFFERED)
            self._payloads.put(first, batch.payload, wanted)
        step = self._loop.run(self._types.table, plain(batch.ts), plain(codes), heads, origin)
        if self._loop.suspects or self._suspects or len(step.rejected):
            rejected += self._put_aside(batch, first, step.rejected)
        self._is_plain = self._alone and self._state.item(kernel.UPDATES) >= 2
        if batch.types == (TICK,):
            return step
        if self._state[kernel.UPDATES] == 1 and len(batch):
            self._doubt(int(batch.ts[-1]), int(codes[-1]), step, origin)
        for block in (self._learner, self._offsetter):
            if block is not None:
                known = np.zeros(len(batch), np.int64) if heads is None else heads
                block.note(batch.ts, codes, known, *(origin or ()))
                if block.missing == 0:
                    self._review()
        return step

    def _feed_one(self, ts: int, code: int, event: Event | EventBatch) -> Ordered:
        """Feed a single event, without what only batches of many need."""
        column, codes, heads = self._single
        column[0], codes[0] = ts, code
        loop, table = self._loop, self._types.table
        before, suspects = loop.slack, loop.suspects
        payload = event.payload if type(event) is Event else None
        if payload and table[kernel.ROLE, code] & kernel.BUFFERED:
            self._payloads.put_one(int(self._state[kernel.ARRIVALS]), payload)
        step = loop.run(table, column, codes, heads)
        rejected = []
        if suspects or loop.suspects:
            row = int(self._state[kernel.ARRIVALS]) - 1
            rejected = self._put_aside(EventBatch.of(event), row, step.rejected)
        return self._answer(step, rejected, before)

    def _answer(self, step: Step, rejected: list[EventBatch], before: int) -> Ordered:
        """Attach the payloads."""
        payloads = _NOTHING
        if self._payloads.used and not (step.released is step.settled is NOTHING is step.replayed):
            take = self._payloads.take
            released = take(step.released[kernel.ROW])
            alike = step.settled is step.released
            settled = released if alike else take(step.settled[kernel.ROW])
            payloads = (released, take(step.replayed[kernel.ROW]), settled)
            self._payloads.forget(step.settled[kernel.ROW])
            if self._payloads.has_tables:
                self._payloads.tidy(self._loop.held[kernel.ROW])
        side = EventBatch.concat(rejected) if rejected else None
        return Ordered(step, self._types.names, before, payloads, side)

    def _put_aside(self, batch: EventBatch, first: int, rejected: Ints) -> list[EventBatch]:
        """Remember suspect events until they are judged; return those that were rejected."""

        def event(row: int) -> EventBatch:
            known = self._suspects.get(row)
            return batch.part(row - first, row - first + 1) if known is None else known

        taken = [event(row) for row in rejected.tolist()]
        self._suspects = {row: event(row) for row in self._loop.suspect_rows}
        return taken

    def _review(self) -> None:
        """Judge the clock by a full block of arrivals."""
        if self._offsetter is not None and self._clock is not None:
            ts, codes, *_ = self._offsetter.drain(OFFSETS)
            codes_of = self._types.codes
            clock = [codes_of[name] for name in self._clock if name in codes_of]
            for code, offset in self._offsetter.measure(ts, codes, clock).items():
                self._types.table[kernel.OFFSET, code] = offset
        if self._learner is not None:
            ts, codes, *more = self._learner.drain(REVIEW)
            if self._learner.choose(ts, codes, self._types.names):
                self._types.review()
                self._types.forget_delays()
                anew = self._loop.anew()
                table, (heads, *origin) = self._types.table.copy(), more
                anew.run(table, ts, codes, heads, Origin(*origin) if origin else None)
                self._loop.learn_from(anew)
                self._types.learn_delays(table)
