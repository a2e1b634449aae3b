"""The ordering unit of the papers, event by event, in the plainest form.

This is what `OrderingUnit` must agree with, exactly, for every batch cut (its compiled loop shares
no code with this module but the parsing of options and `holding_time`). Times are integers; the
buffer is a sorted list of `(ts, arrival number, type)`.

When an event arrives:

1. If it is a clock event implausibly far ahead, it is suspect: it goes into the buffer like any
   event, but is not measured and does not move the clock. The next plausible clock event rejects
   the suspects; a third suspect in a row is believed. (At the very start, the clock itself may be
   wrong: after three clock events in a row far behind the first one, the unit starts again.)
2. Insert it into the buffer; note its effective time, `ts - head_start`.
3. If it is a clock event that is not behind the clock, the clock moves to it. The events noted
   since the last update have the delay `clock - effective time`; the policy updates the slack.
4. Release what has waited long enough, and settle what has waited for the whole slack. Buffering
   (attenuation 1) does both at once, and only at clock updates. Speculation releases up to a
   frontier that never goes back, at every arrival, and replays the events after a late one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from betimes.model.hints import known_options
from betimes.ordering import SlackPolicy, holding_time

Item = tuple[int, int, str]


@dataclass
class Row:
    """What happened on one arrival."""

    clock: int | None
    slack: int
    released: list[Item]
    replayed: list[Item]
    settled: list[Item]
    late: bool
    rejected: list[Item]


@dataclass
class Learned:
    """Everything learned from the stream: the clock, the delays, the slack."""

    clock: int | None = None
    slack: int = 0
    largest: int = 0
    faded: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    measured: int = 0
    waiting: list[tuple[int, str]] = field(default_factory=list)
    delays: dict[str, int] = field(default_factory=dict)
    notices: list[int] = field(default_factory=list)
    needs: int = 0
    weights: Counter[int] = field(default_factory=Counter)
    gain: int = 2**30
    gain_left: int = 0
    allowance: float = 7.0
    floor: tuple[int, int] = (0, 0)
    passed: int = -1
    passed_top: int = -1


@known_options
class ReferenceUnit:
    """One ordering unit, fed one event at a time. Each attribute is a quantity of the papers.

    >>> unit = ReferenceUnit(clock={"A"})
    >>> [unit.feed(t, ts).slack for t, ts in [("A", 0), ("A", 2), ("C", 1), ("A", 4)]]
    [0, 0, 0, 3]
    """

    def __init__(
        self,
        *,
        clock: Collection[str],
        on: Collection[str] | None = None,
        policy: SlackPolicy | None = None,
        attenuation: float = 1.0,
        max_skew: int = 3_600_000_000,
    ) -> None:
        self.clock_types = clock
        self.on = on
        self.policy = policy or SlackPolicy()
        self.look: float = 0
        self._attenuation = 1.0
        self.max_skew = max_skew
        self.learned = Learned(slack=self.policy.min)
        self.buffer: list[Item] = []
        self.released = 0
        self.frontier = self.settled_to = self.settled_top = -1
        self.suspects: list[Item] = []
        self.arrivals = 0
        self.updates = self.contradictions = 0
        self.attenuation = attenuation

    @property
    def attenuation(self) -> float:
        """The share of the slack to wait."""
        return self._attenuation

    @attenuation.setter
    def attenuation(self, value: float) -> None:
        before, self._attenuation = self._attenuation, value
        if value < 1:
            self.look = math.inf
        elif before < 1:
            self._look()

    def _look(self) -> None:
        """Speculation is over when nothing is out that is not settled; otherwise look again."""
        self.look = self.arrivals + max(self.released, 256) if self.released else 0

    def feed(
        self, type: str, ts: int, *, head_start: int = 0, notice: bool = False, offset: int = 0
    ) -> Row:
        event = (ts, self.arrivals, type)
        self.arrivals += 1
        wanted = not notice and (self.on is None or type in self.on)
        clock_event = not notice and ("*" in self.clock_types or type in self.clock_types)
        time = ts + offset
        rejected, suspect = self._judge(event, time) if clock_event else ([], False)
        late = wanted and ts < self.settled_top
        speculating = self.look > 0
        last = self.buffer[self.released - 1] if self.released else (-1, -1, "")
        if (wanted or notice) and not suspect:
            self._note(event, head_start, notice)
        if wanted:
            insort(self.buffer, event)
        updates = clock_event and not suspect and time >= (self.learned.clock or 0)
        if updates:
            self._update(time)
        if speculating:
            replayed, released, settled = self._speculate(event, wanted and event < last, updates)
        else:
            replayed, released = [], self._release() if updates else []
            settled = released
        for item in settled:
            self.settled_top = max(self.settled_top, item[0])
        learned = self.learned
        row = Row(learned.clock, learned.slack, released, replayed, settled, late, rejected)
        self.updates += updates
        if self.updates == 1 and clock_event and learned.clock is not None:
            behind = time < learned.clock - self.max_skew
            self.contradictions = self.contradictions + 1 if behind else 0
            if self.contradictions == 3:
                row.settled = row.settled + self._restart()
        if self.arrivals == self.look:
            self._look()
        return row

    def _restart(self) -> list[Item]:
        """The first clock event was wrong: forget its clock; what it released is settled."""
        self.learned.clock = None
        self.learned.waiting, self.learned.notices, self.learned.delays = [], [], {}
        self.learned.passed = self.learned.passed_top = -1
        self.frontier = self.settled_to = self.settled_top = -1
        self.updates = self.contradictions = 0
        settled, self.buffer = self.buffer[: self.released], self.buffer[self.released :]
        self.released = 0
        return settled

    def _judge(self, event: Item, time: int) -> tuple[list[Item], bool]:
        clock = self.learned.clock
        if clock is None or time - clock <= self.max_skew or time <= self.frontier:
            rejected, self.suspects = self.suspects, []
            if rejected:
                self.buffer = [e for e in self.buffer if e not in rejected]
            return rejected, False
        self.suspects.append(event)
        if len(self.suspects) == 3:
            self.suspects = []
            return [], False
        return [], True

    def _note(self, event: Item, head_start: int, notice: bool) -> None:
        learned = self.learned
        learned.waiting.append((event[0] - head_start, "" if notice else event[2]))
        if notice:
            learned.notices.append(event[0] - head_start)
        elif self.policy.name == "quantile":
            self._note_need(event[0], head_start)

    def _note_need(self, ts: int, head_start: int) -> None:
        """How much slack this event would have needed to be released in order."""
        learned = self.learned
        at = bisect_right(self.buffer, (ts, self.arrivals, ""))
        need = 0
        late = ts < learned.passed_top
        if learned.clock is not None:
            if late:
                need = learned.clock - ts + 1 + head_start
            elif at < len(self.buffer):
                need = max(0, learned.clock + head_start - self.buffer[at][0] + 1)
        learned.needs += 1
        self._weigh(need)
        if learned.needs > 200:
            learned.allowance = min(learned.allowance + self.policy.max_late, 50.0)
            learned.allowance = max(learned.allowance - late, -30.0)
        learned.floor = (learned.floor[0], max(0, learned.floor[1] - 1))
        if ts <= learned.passed:
            learned.passed_top = max(learned.passed_top, ts)

    def _weigh(self, need: int) -> None:
        """Count a need, rounded up to five binary digits; what is new weighs more than the old."""
        learned = self.learned
        learned.gain_left -= 1
        if learned.gain_left <= 0:
            learned.gain += learned.gain >> 4
            pace = 7 if learned.allowance >= 50 else 5
            learned.gain_left = max(1, min(learned.needs, 8 * self.policy.window, 2**26) >> pace)
            if learned.gain >= 2**36:
                learned.gain >>= 6
                learned.weights = Counter({n: w >> 6 for n, w in learned.weights.items()})
        digits = max(0, need.bit_length() - 5)
        learned.weights[((need >> digits) + 1 << digits) - 1] += learned.gain

    def _update(self, time: int) -> None:
        """The clock moves: learn delays, set the slack."""
        learned, policy = self.learned, self.policy
        elapsed = time - (time if learned.clock is None else learned.clock)
        learned.clock = time
        delays = [time - effective for effective, _ in learned.waiting]
        for delay, (_, type) in zip(delays, learned.waiting, strict=True):
            learned.delays[type] = max(delay, learned.delays.get(type, 0))
        learned.largest = max([learned.largest, *delays])
        if policy.decay is None:
            learned.faded = max(0.0, learned.faded - elapsed / 60)
        else:
            learned.faded *= policy.decay / (policy.decay + elapsed)
        learned.faded = max([learned.faded, *map(float, delays)])
        if policy.margin:
            for delay in delays:
                self._note_spread(delay)
        if learned.notices:
            floor = time - min(learned.notices)
            known = learned.floor[0] if learned.floor[1] else 0
            learned.floor = (max(floor, known), policy.window)
        learned.waiting, learned.notices = [], []
        slack = {
            "largest": lambda: learned.largest,
            "decaying": lambda: math.ceil(learned.faded),
            "quantile": self._quantile,
        }[policy.name]()
        slack += math.ceil(policy.margin * math.sqrt(learned.variance))
        if policy.name == "largest":
            slack = max(slack, learned.slack)
        learned.slack = min(max(slack, policy.min), policy.max)
        if policy.name == "quantile" and time - learned.slack > learned.passed:
            learned.passed = time - learned.slack
            passed = [e[0] for e in self.buffer if e[0] <= learned.passed]
            learned.passed_top = max([learned.passed_top, *passed])

    def _note_spread(self, delay: int) -> None:
        learned = self.learned
        difference = delay - learned.mean
        if learned.measured:
            step = difference / 256
            learned.mean += step
            learned.variance = (1 - 1 / 256) * (learned.variance + difference * step)
        else:
            learned.mean = difference
        learned.measured += 1

    def _quantile(self) -> int:
        learned = self.learned
        share = self.policy.max_late * min(max(learned.allowance, 0.0) / 12.0, 1.0)
        weight = max(learned.gain // 8, int(share * sum(learned.weights.values())))
        slack = above = 0
        for need in sorted(learned.weights, reverse=True):
            above += learned.weights[need]
            if above >= weight:
                slack = need
                break
        return max(slack, learned.floor[0]) if learned.floor[1] else slack

    def _release(self) -> list[Item]:
        """Buffering: release and settle what has waited for the whole slack."""
        assert self.learned.clock is not None
        bound = self.learned.clock - self.learned.slack
        self.frontier = max(self.frontier, bound)
        self.settled_to = max(self.settled_to, bound)
        count = bisect_left(self.buffer, (bound + 1, -1, ""))
        released, self.buffer = self.buffer[:count], self.buffer[count:]
        return released

    def _speculate(
        self, event: Item, behind: bool, updates: bool
    ) -> tuple[list[Item], list[Item], list[Item]]:
        """Speculation: release up to the frontier, replay behind it, settle by the slack."""
        clock, slack = self.learned.clock, self.learned.slack
        if clock is not None:
            self.frontier = max(self.frontier, clock - holding_time(self.attenuation, slack))
        if updates and clock is not None:
            # Until something is learned, the newest instant stays open.
            self.settled_to = max(self.settled_to, clock - max(slack, 1))
        replayed = []
        if behind:
            self.released += 1
            replayed = self.buffer[self.buffer.index(event) : self.released]
        reach = bisect_left(self.buffer, (self.frontier + 1, -1, ""))
        released = self.buffer[self.released : max(reach, self.released)]
        count = bisect_left(self.buffer, (self.settled_to + 1, -1, "")) if updates else 0
        settled, self.buffer = self.buffer[:count], self.buffer[count:]
        self.released += len(released) - count
        return replayed, released, settled
