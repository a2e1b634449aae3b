"""The engine: a hierarchy of detectors, each behind its ordering unit, fed in batches.

Stages run in topological order. Within a batch, every stage sees the input events and all that the
stages below it have published, taken back or confirmed in this batch, at once; so a batch costs at
most one replay a stage and key, however many events were late.
"""

from __future__ import annotations

import time as wall
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from betimes.engine.arrivals import Arrivals
from betimes.engine.attenuation import AttenuationControl, Load, Zone
from betimes.engine.calibration.configuration import Calibration
from betimes.engine.checkpoints import CheckpointModel, parse_checkpoints
from betimes.engine.codec import CheckpointError, dumps, loads
from betimes.engine.coded import Coded
from betimes.engine.columns.stage import ColumnStage
from betimes.engine.hierarchy import Hierarchy, Node
from betimes.engine.inputs import Inputs
from betimes.engine.messages import News, Output
from betimes.engine.retraction import Technique
from betimes.engine.row_stage import RowStage
from betimes.engine.slices import BatchStage
from betimes.engine.split import Split
from betimes.engine.stage import END, Stage, StageOptions
from betimes.engine.stats import DetectorStats
from betimes.engine.wiring import news_for
from betimes.model import (
    TICK,
    Duration,
    Event,
    EventBatch,
    EventError,
    OptionError,
    StreamEndedError,
    microseconds,
)
from betimes.model.change import LATE, REJECTED, Change, ChangeBatch
from betimes.model.duration import LONGEST
from betimes.ordering import OrderingUnit, SlackPolicy
from betimes.ordering.clock import EVERY
from betimes.ordering.start import NOTHING_KNOWN

Ints = npt.NDArray[np.int64]

LATE_POLICIES = ("repair", "side", "drop")
FORMAT = 2


class Engine:
    """Runs a hierarchy over a stream that arrives out of order.

    >>> def fast(event):
    ...     if event["v"] > 5:
    ...         return Event("fast", event.ts, event.payload)
    >>> speed = Hierarchy(clock="position")
    >>> speed.add(fast, on="position", emits="fast")
    >>> engine = Engine(speed, attenuation=0.5)
    >>> changes = engine.feed([Event("position", 3, {"v": 7}), Event("position", 1, {"v": 9})])
    >>> [(c.change_type, c.status, c.ts) for c in [*changes, *engine.finish()]]
    [('insert', 'final', 1), ('insert', 'provisional', 3), ('confirm', 'final', 3)]
    """

    _unit_class: type[OrderingUnit] = OrderingUnit

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        attenuation: float | str = "adaptive",
        retraction: Technique = "auto",
        slack: str | Duration = "largest",
        margin: float = 0.0,
        min_slack: Duration = 0,
        max_slack: Duration | None = None,
        max_late: float = 0.01,
        decay: Duration = "60s",
        max_skew: Duration | None = "1h",
        late: str = "repair",
        retention: Duration = "10s",
        checkpoints: str | int | CheckpointModel = "adaptive",
        errors: str = "stop",
        by: str | None = None,
        order: str = "shared",
        zone: Zone | None = None,
        calibration: Calibration | str | Path | None = None,
        time: Callable[[], float] = wall.perf_counter,
    ) -> None:
        hierarchy.check()
        starts = {}
        if calibration is not None:
            calibration = Calibration.of(calibration).check(hierarchy)
            starts = {name: known.start for name, known in calibration.detectors.items()}
        if late not in LATE_POLICIES:
            raise OptionError(f"expected late to be one of {LATE_POLICIES}, got late={late!r}")
        if errors not in ("stop", "skip"):
            raise OptionError(f"expected errors to be 'stop' or 'skip', got errors={errors!r}")
        if order not in ("shared", "key") or (order == "key" and by is None):
            raise OptionError(
                "expected order to be 'shared', or 'key' together with by=, "
                f"got order={order!r}, by={by!r}"
            )
        self.hierarchy = hierarchy
        self._by = by
        self._split = None
        if order == "key":
            make = partial(
                type(self), hierarchy,
                attenuation=attenuation, retraction=retraction, slack=slack, margin=margin,
                min_slack=min_slack, max_slack=max_slack, max_late=max_late, decay=decay,
                max_skew=max_skew, late=late, retention=retention, checkpoints=checkpoints,
                errors=errors, by=by, zone=zone, calibration=calibration, time=time,
            )  # fmt: skip
            self._split = Split(make)
        self._time = time
        self._levels = hierarchy.levels()
        nodes = {node.name: node for node in hierarchy}
        options = StageOptions(
            clock=hierarchy.clock, retraction=retraction, late=late, errors=errors,
            retention=microseconds(retention, "retention"), grouped=by is not None,
            checkpoints=parse_checkpoints(checkpoints), time=time,
        )  # fmt: skip
        self._stages: dict[str, Stage] = {}
        for number, (name, level) in enumerate(self._levels.items()):
            on = nodes[name].on
            unit = self._unit_class(
                clock=hierarchy.clock, on=None if EVERY in on else on, margin=margin,
                max_late=max_late, decay=decay, max_skew=max_skew,
                start=starts.get(name, NOTHING_KNOWN),
                **_slack_of(level, slack, min_slack, max_slack),
            )  # fmt: skip
            kind = _kind(nodes[name], level)
            self._stages[name] = kind(nodes[name], level * 1000 + number, unit, options)
        for stage in self._stages.values():
            publishers = (n for n, other in nodes.items() if set(other.emits) & set(stage.node.on))
            stage.below = [self._stages[publisher] for publisher in publishers]
        self._used = {type for node in hierarchy for type in node.on} | set(hierarchy.clock or ())
        self._control = AttenuationControl(list(self._stages), attenuation, zone or Zone())
        self._span_began, self._span = time(), 0.0
        self._loads: dict[str, Load] = {}
        self._arrived = 0
        self._newest = -1
        """The largest time of all events."""
        self._max_skew = LONGEST if max_skew is None else microseconds(max_skew, "max_skew")
        self._seq = 0
        self.rejected = 0
        """Clock events that were too far ahead and taken out of the stream."""
        self.ignored: Counter[str] = Counter()
        """Events that no detector subscribes to, by type."""
        self._broken: BaseException | None = None
        self._ended = False
        for name, stage in self._stages.items():
            stage.unit.attenuation = self._control.value(name)

    @property
    def attenuation(self) -> dict[str, float]:
        """The attenuation of each detector."""
        return {name: stage.unit.attenuation for name, stage in self._stages.items()}

    @property
    def sure_clock(self) -> int | None:
        """The time of the stream, if no clock event so far is in doubt for any detector."""
        clocks = [stage.unit.sure_clock for stage in self._stages.values()]
        known = [clock for clock in clocks if clock is not None]
        return min(known) if len(known) == len(clocks) else None

    def set_attenuation(self, value: float) -> None:
        """Set the attenuation of all detectors, from the next batch on."""
        self._control = AttenuationControl(list(self._stages), value, self._control.zone)
        for stage in self._stages.values():
            stage.unit.attenuation = value

    def feed(
        self, events: EventBatch | pa.Table | pa.RecordBatch | Iterable[Event] | Event
    ) -> ChangeBatch:
        """Take arrivals, in order of arrival; return what changed."""
        self._check_open()
        if not isinstance(events, EventBatch | pa.Table | pa.RecordBatch | Event | list):
            events = list(events)
        batch = EventBatch.of(events)
        groups = self._groups(batch)
        if self._split is not None and groups is not None:
            return self._split.feed(batch, groups.spelled())
        self._check_types(batch)
        every = Inputs(batch, groups, self._arrived, events if isinstance(events, list) else None)
        inputs = {name: stage.arrivals(every) for name, stage in self._stages.items()}
        return self._taken(inputs, batch.ts, len(batch))

    def _check_open(self) -> None:
        """Refuse to go on after the end, or after an error."""
        if self._ended:
            raise StreamEndedError(
                "expected no more events after finish(), but feed() was called; "
                "build a new Engine for a new stream"
            )
        if self._broken is not None:
            raise StreamEndedError(
                f"this engine stopped at an error ({self._broken}); restore a checkpoint from "
                "before it into a new engine, or set errors='skip'"
            )

    def _taken(self, inputs: dict[str, Arrivals], ts: Ints, count: int) -> ChangeBatch:
        """Hand out what arrives; after an error nobody can say what the stages have taken."""
        try:
            return self._feed(inputs, ts, count)
        except BaseException as error:
            self._broken = error
            raise

    def _check_types(self, batch: EventBatch) -> None:
        """Refuse events of types that are no input; count those that nobody subscribes to."""
        inputs = self.hierarchy.inputs
        if inputs is None and (EVERY in self._used or self._used.issuperset(batch.types)):
            return
        counts = np.bincount(batch.codes, minlength=len(batch.types)).tolist()
        for name, count in zip(batch.types, counts, strict=True):
            if count and inputs is not None and name not in inputs:
                raise EventError(
                    f"expected events of the types {list(inputs)} (inputs=), got {name!r}; declare "
                    "it there, or filter such events out"
                )
            if count and not self._used.intersection((name, EVERY)):
                self.ignored[name] += count

    def _feed(self, inputs: dict[str, Arrivals], ts: Ints, count: int) -> ChangeBatch:
        first = self._arrived
        self._arrived += count
        told: dict[str, News] = {}
        for name, stage in self._stages.items():
            told[name] = _heard(stage, stage.step(*news_for(stage, inputs[name], told), first))
        newest = int(ts.max(initial=-1))
        clocks = [stage.unit.clock for stage in self._stages.values()]
        sound = max(clock or 0 for clock in clocks) + self._max_skew
        if newest > sound:
            # An event that is absurdly far ahead says nothing about the time.
            newest = int(ts.max(initial=-1, where=ts <= sound))
        self._newest = max(self._newest, newest)
        changes = self._changes(told)
        self._steer()
        return changes

    def advance(self, by: Duration | Mapping[Any, Duration]) -> ChangeBatch:
        """Time passes while nothing happens: every clock moves on by so much.

        What was held back only for want of a later event is released and settles. With
        `order="key"` a mapping says by how much for some of the keys.
        """
        if self._split is not None:
            return self._split.advance(by)
        if isinstance(by, Mapping):
            raise OptionError('expected a duration; only with order="key" have keys their own time')
        clocks = [stage.unit.clock for stage in self._stages.values()]
        now = max((clock for clock in clocks if clock is not None), default=None)
        passed = microseconds(by, "by")
        if now is None or not passed:
            return ChangeBatch([])
        self._check_open()
        tick = EventBatch(np.array([now + passed]), np.zeros(1, np.int32), (TICK,))
        # Each level hears of it after what it makes the level below tell: nothing comes too late.
        inputs = {
            name: stage.arrivals(Inputs(tick, self._groups(tick), self._arrived + level))
            for (name, stage), level in zip(
                self._stages.items(), self._levels.values(), strict=True
            )
        }
        return self._taken(inputs, tick.ts, 1 + max(self._levels.values()))

    def finish(self, *, advance: bool = True) -> ChangeBatch:
        """End of the stream: everything settles, everything that stands becomes final.

        Time runs out: open windows close, and what did not happen is reported. With
        `advance=False` it stays at the last event.
        """
        if self._ended:
            raise StreamEndedError("expected finish() once, but it was called again")
        self._ended = True
        if self._split is not None:
            return self._split.finish(advance=advance)
        told: dict[str, News] = {}
        time = END if advance else self._newest
        nothing, last = EventBatch.concat([]), self._arrived
        empty = Inputs(nothing, self._groups(nothing), last)
        for name, stage in self._stages.items():
            arrivals = stage.arrivals(empty)
            news = _heard(stage, stage.step(*news_for(stage, arrivals, told), last))
            told[name] = news.join(_heard(stage, stage.finish(last, time)))
        return self._changes(told)

    def checkpoint(self) -> bytes:
        """The whole state as bytes: data, no pickled objects. Feed on, or restore it elsewhere."""
        if self._split is not None:
            parts = [(key, part.checkpoint()) for key, part in self._split.engines.items()]
            kept = {"format": FORMAT, "parts": parts, "seq": self._split.seq, "ended": self._ended}
            return dumps(kept, "the engine")
        stages = {}
        for name, stage in self._stages.items():
            stages[name] = dumps(stage.state_of(), f"the state of detector {name!r}")
        return dumps(
            {
                "format": FORMAT,
                "hierarchy": self._fingerprint(),
                "arrived": self._arrived,
                "newest": self._newest,
                "seq": self._seq,
                "ended": self._ended,
                "stages": stages,
            },
            "the engine",
        )

    def restore(self, checkpoint: bytes) -> None:
        """Take over a checkpoint of an engine with the same hierarchy; this one must be new."""
        if self._arrived or self._ended:
            raise CheckpointError(
                "expected a new engine to restore into, but events were fed to this one already"
            )
        kept = loads(checkpoint, "the checkpoint")
        if not isinstance(kept, dict) or kept.get("format") != FORMAT:
            raise CheckpointError(
                f"expected a checkpoint of format {FORMAT}, this one is of another version; finish "
                "the stream with the version that wrote it"
            )
        if ("parts" in kept) != (self._split is not None):
            raise CheckpointError("the checkpoint was written with another order=; use the same")
        if self._split is not None:
            self._split.resume(kept)
            self._ended = kept["ended"]
            return
        if kept["hierarchy"] != self._fingerprint():
            raise CheckpointError(
                "the checkpoint belongs to another hierarchy:\n"
                f"{kept['hierarchy']}\nand this one is\n{self._fingerprint()}"
            )
        self._arrived, self._seq = kept["arrived"], kept["seq"]
        self._newest = kept["newest"]
        self._ended = kept["ended"]
        for name, stage in self._stages.items():
            stage.resume(loads(kept["stages"][name], f"the checkpoint of detector {name!r}"))
            stage.unit.attenuation = self._control.value(name)

    def _fingerprint(self) -> str:
        return f"clock {self.hierarchy.clock}\n{self.hierarchy.explain()}"

    @property
    def stats(self) -> dict[str, DetectorStats]:
        """Readings of every detector, as of now; with order="key", those of each key."""
        if self._split is not None:
            return {
                f"{name} {key}": reading
                for key, part in self._split.engines.items()
                for name, reading in part.stats.items()
            }
        return {name: self._stats(name, stage) for name, stage in self._stages.items()}

    def _stats(self, name: str, stage: Stage) -> DetectorStats:
        unit, counts = stage.unit.stats, stage.counts
        load = self._loads.get(name)
        snapshots, snapshot_bytes = stage.snapshots()
        return DetectorStats(
            detector=name,
            level=self._levels[name],
            clock=unit.clock,
            slack=unit.slack,
            attenuation=unit.attenuation,
            buffered=unit.buffered,
            remembered=stage.remembered,
            released=unit.released,
            handled=counts.handled,
            replays=counts.replays,
            replayed=counts.replayed,
            snapshots=snapshots,
            snapshot_bytes=snapshot_bytes,
            retracted=counts.retracted,
            late=counts.late,
            errors=counts.errors,
            retraction=f"{stage.retraction.technique}: {stage.retraction.reason}",
            latency_provisional=counts.first_latency / counts.made if counts.made else None,
            latency_final=counts.final_latency / counts.finals if counts.finals else None,
            busy=counts.busy,
            busy_factor=0.0 if load is None else load.busy / self._span,
        )

    def _groups(self, batch: EventBatch) -> Coded | None:
        if self._by is None:
            return None
        # Time passes for all.
        if batch.types == (TICK,):
            return Coded.plain([None] * len(batch))
        return Coded.of(batch, self._by, "the engine")

    # Changes

    def _changes(self, told: dict[str, News]) -> ChangeBatch:
        changes: list[Change] = []
        for name, news in told.items():
            # In the order of their places: how a stage went back, which may depend on measured
            # times, must not show in the rows.
            if news.deleted:
                news.inserted.sort(key=_place)
            gone = {output.id: output for output in news.deleted}
            come = {output.id: output for output in news.inserted}
            changes += [
                self._change("delete", name, output, output.why)
                for output in sorted(news.deleted, key=_place)
                if output.id not in come
            ]
            for output in come.values():
                before = gone.get(output.id) if gone else None
                if before is None:
                    changes.append(self._change("insert", name, output))
                    continue
                output.told_final = before.told_final
                if output.final and not output.told_final:
                    changes.append(self._change("confirm", name, output))
            changes += [
                self._change("confirm", name, output)
                for output in sorted(news.confirmed, key=_place)
                if not output.told_final
            ]
            for event, late_by, which in news.late:
                payload = {**event.payload, "event": event.type, "late_by": late_by}
                cause = f"{event.type} came too late"
                change = self._side_change(LATE, name, event, which, payload, cause)
                changes.append(msgspec.structs.replace(change, detected_at=event.ts + late_by))
        rejected = {at: (name, e) for name, news in told.items() for e, at in news.rejected}
        for at, (name, event) in rejected.items():
            payload = {**event.payload, "event": event.type}
            cause = f"{event.type} is too far ahead of the clock (max_skew)"
            changes.append(self._side_change(REJECTED, name, event, str(at), payload, cause))
        self.rejected += len(rejected)
        return ChangeBatch(changes)

    def _change(self, kind: Any, name: str, output: Output, cause: str | None = None) -> Change:
        """A row about an output; if there is no other, its cause is the event that completed it."""
        self._seq += 1
        if kind != "delete":
            output.told_final = output.final
        event = output.event
        if cause is None:
            cause = f"{output.cause_event.type} at {output.cause_event.ts}"
        return Change(
            kind, "final" if output.told_final else "provisional", output.id, self._seq,
            event.type, event.ts, output.detected_at, output.slack, event.payload, name, cause,
        )  # fmt: skip

    def _side_change(
        self, kind: str, name: str, event: Event, which: str, payload: dict[str, Any], cause: str
    ) -> Change:
        """A row about an event that no detector will see."""
        self._seq += 1
        stage = self._stages[name]
        content = f"{kind} {name} {event.type} {event.ts} {which}".encode()
        return Change(
            "insert", "final", blake2b(content, digest_size=12).hexdigest(), self._seq, kind,
            event.ts, max(stage.final_to, 0), stage.unit.stats.slack, payload, name, cause,
        )  # fmt: skip

    # Speculation

    def _steer(self) -> None:
        """At the end of a span, let the control loop set the attenuation anew."""
        now = self._time()
        span = now - self._span_began
        if span < self._control.zone.span:
            return
        self._span_began, self._span = now, span
        self._loads = {name: stage.load() for name, stage in self._stages.items()}
        self._control.update(self._loads, span)
        if self._control.adaptive:
            for name, stage in self._stages.items():
                stage.unit.attenuation = self._control.value(name)


_place = attrgetter("place")


def _heard(stage: Stage, news: News) -> News:
    """News as its readers understand it: what one message takes back is looked up."""
    if stage.ledger is not None:
        stage.ledger.read(news, stage.reach)
    return news


def _kind(node: Node, level: int) -> type[Stage]:
    """Input events come as columns: whoever can read them so does."""
    if level == 1 and node.compiles:
        return ColumnStage
    return BatchStage if level == 1 and node.maker.kind == "batch" else RowStage


def _slack_of(
    level: int, slack: str | Duration, min_slack: Duration, max_slack: Duration | None
) -> dict[str, Any]:
    """The slack options of a level: above the first one, events also wait for those below.

    What is made from events that were held back for a fixed time comes at least that late; so above
    the first level a fixed slack is where learning begins, and a limit counts for each level.
    """
    policy = SlackPolicy.parse(slack, min_slack=min_slack, max_slack=max_slack)
    if level == 1:
        return {"slack": slack, "min_slack": min_slack, "max_slack": max_slack}
    if policy.label == "fixed":
        return {"slack": "largest", "min_slack": policy.min}
    limit = None if max_slack is None else policy.max * level
    return {"slack": slack, "min_slack": min_slack, "max_slack": limit}
