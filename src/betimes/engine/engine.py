"""The engine: a hierarchy of detectors, each behind its ordering unit, fed in batches.

This is the public face: it checks what comes in, numbers what goes out, and steers the attenuation.
The order behind it does the work: `SharedOrder` is one order for all events, `KeyedOrder` one per
key.
"""

from __future__ import annotations

import time as wall
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

from betimes.engine.attenuation import AttenuationControl
from betimes.engine.budget import Budget
from betimes.engine.changes import ChangeWriter
from betimes.engine.hierarchy import Hierarchy, HierarchyError
from betimes.engine.intake import Events, Intake
from betimes.engine.keyed import KeyedOrder
from betimes.engine.load import LoadMeter, Spans
from betimes.engine.news.news import News
from betimes.engine.options import EngineOptions, signature
from betimes.engine.shared import SharedOrder
from betimes.engine.spreading import elsewhere, refuse
from betimes.engine.stages.observers import Observer
from betimes.engine.stats import DetectorStats
from betimes.engine.stored import EngineState
from betimes.model import (
    Duration,
    Event,
    OptionError,
    StreamEndedError,
)
from betimes.model.calls import alone
from betimes.model.change import ChangeBatch, Parts
from betimes.model.codec import CheckpointError, dumps, loads, sealed, unsealed
from betimes.model.coded import Coded
from betimes.model.detector import DetectorError
from betimes.model.fitting import check_format, check_identity
from betimes.model.hints import known_options
from betimes.model.identity import Identity
from betimes.model.stored import shaped
from betimes.model.volumes import VolumeReader, VolumeWriter, Written
from betimes.ordering.workspace import Workspace

FORMAT = 11
"""Layout of a checkpoint; any other layout is refused."""

_NOTHING: Mapping[bytes, bytes] = {}
"""What `feed` takes."""


@known_options
class Engine:
    """Runs a hierarchy over a stream that arrives out of order.

    Parameters
    ----------
    hierarchy
        The detectors and how they are wired.
    attenuation : "adaptive"
        The share of the slack to wait before an event is handled: 1 buffers, 0 does not wait.
    retraction : "auto"
        How wrong results are taken back: `"full"`, `"on-demand"`, or whichever is cheaper.
    slack : "largest"
        How long events are held back at most: learned as the `"largest"` delay, `"decaying"`, a
        `"quantile"` of the delays, or a fixed duration such as `"150ms"`.
    margin, min_slack, max_slack, max_late, decay
        Details of the slack; see `SlackPolicy`.
    max_skew : "1h"
        A clock event further ahead than this is put aside unless others confirm it; `"off"`
        believes every one.
    late : "repair"
        What happens to an event that arrives later than the slack allows: `"repair"` the results,
        report it on the `"side"`, or `"drop"` and count it.
    retention : "32 MB"
        How much of what was handled is remembered so that late events can be repaired: about this
        much memory, but at least 10 s beyond the slack, or a duration such as `"1h"`.
    snapshots : "adaptive"
        How many events lie between two snapshots of a detector.
    errors : "stop"
        What happens when a detector fails: `"stop"` once no late event can repair it, or
        `"skip"` the event and count it.
    by : None
        The payload column that splits the stream into independent ones.
    order : "shared"
        One clock for all keys, or with `"key"` a clock and a slack for each value of `by`.
    source : None
        The payload column that says which source an event comes from, such as the partition of a
        Kafka topic; each source then has its own clock and slack, and settling waits for the
        slowest.
    quiet : "10min"
        After this much stream time without an event, settling no longer waits for a source.
    unit : None
        What numbers that stand for times count: `"s"`, `"ms"`, `"us"` or `"ns"`; microseconds if
        you do not say, with a warning if they look like something else. Timestamps and ISO text
        need no unit.
    zone : Zone()
        The load to aim at when the attenuation is adaptive.
    calibration : None
        What detectors start with: a `Calibration` or the file that holds one.
    time : time.perf_counter
        The wall clock that measures the load.
    load : None
        Tells how busy the loop is; engines that take turns in one thread share a `LoadMeter`, and
        its clock.
    observers : ()
        Objects that watch the stages at work; see `Observer`.
    carry : None
        Takes news from stage to stage; it may write it to bytes and read it elsewhere.
    cores : None
        How many cores detectors may use that start processes by themselves; all that there are if
        you do not say.
    foresight : None
        What others run ahead of this engine: a `Foresight` of transactions.
    workers : None
        How many worker processes the detectors are spread over; changes may come a few feeds later.

    >>> from betimes import Event
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

    def __init__(
        self,
        hierarchy: Hierarchy,
        options: EngineOptions | None = None,
        *,
        time: Callable[[], float] = wall.perf_counter,
        load: LoadMeter | None = None,
        observers: Sequence[Observer] = (),
        carry: Callable[[News], News] | None = None,
        cores: int | None = None,
        foresight: Any = None,
        workers: Any = None,
        **keywords: Any,
    ) -> None:
        if not isinstance(hierarchy, Hierarchy):
            raise OptionError(
                f"expected a Hierarchy, got {hierarchy!r}; add patterns and detectors to a "
                "Hierarchy with add()"
            )
        hierarchy.check()
        self.hierarchy = hierarchy
        self.options = (
            EngineOptions.of(keywords, function=Engine.__init__)
            if options is None
            else options.with_(**keywords)
        )
        if self.options.calibration is not None:
            self.options.calibration.check(hierarchy)  # type: ignore[union-attr]
        self._detectors = len(hierarchy)
        self.load = LoadMeter.of(time, load)
        """How busy the loop is. What you do inside `with engine.load:` counts as work."""
        self._spans = Spans(self.load)
        self.lock = Lock()
        self._changes = ChangeWriter()
        make = partial(
            SharedOrder, hierarchy, self.options, self._changes, time=self.load.time,
            observers=observers,
            carry=carry, cores=cores, foresight=foresight, workspace=Workspace(),
            budget=(budget := Budget(self.options.kept.budget)),
        )  # fmt: skip
        self.budget = budget
        self._order: Any
        if workers is not None:
            refuse(observers=observers, carry=carry, foresight=foresight)
            self._order = elsewhere(
                workers, hierarchy, self.options, changes=self._changes, whole=make, cores=cores
            )
        else:
            self._order = KeyedOrder(make, budget) if self.options.order == "key" else make()
        self._intake = Intake(hierarchy, self.options.unit)
        self._set_control(self.options)
        self._wasteful: frozenset[bytes] = frozenset()
        """Volumes of checkpoints of which too little is used."""
        self._broken: BaseException | None = None
        self._ended = False

    __signature__ = signature(__init__)

    def __repr__(self) -> str:
        state = "ended" if self._ended else "stopped" if self._broken is not None else "open"
        names = ", ".join(node.name for node in self.hierarchy)
        setting = self.options.attenuation
        count = self._changes.seq
        changes = "1 change" if count == 1 else f"{count:,} changes"
        return f"Engine({names}; {state}, {changes}, attenuation {setting})"

    @property
    def ignored(self) -> Counter[str]:
        """How many events no detector subscribes to, by type."""
        return self._intake.ignored

    @property
    def rejected(self) -> int:
        """Clock events that were taken out of the stream because they were too far ahead."""
        return self._changes.rejected

    @property
    def attenuation(self) -> dict[str, float]:
        """The attenuation of each detector."""
        return self._control.values()

    def set_attenuation(self, value: float) -> None:
        """Set the attenuation from the next batch on, except of detectors that have their own."""
        self._set_control(self.options.with_(attenuation=value))

    def hold_attenuation(self, value: float) -> None:
        """Set the attenuation of the adaptive detectors, which the engine then steers no longer."""
        self._control.hold(value)
        self._order.set_attenuation(self._control.values())

    def _set_control(self, options: EngineOptions) -> None:
        settings = {node.name: node.own.over(options).attenuation for node in self.hierarchy}
        self._control = AttenuationControl(settings, options.zone)
        self._order.set_attenuation(self._control.values())

    @property
    def sure_clock(self) -> int | None:
        """Stream time, if no detector has a clock event that is in doubt."""
        clock: int | None = self._order.sure_clock
        return clock

    @alone
    def feed(self, events: Events, *, blocks: bool = False) -> ChangeBatch:
        """Take events in the order of their arrival; return what changed.

        `events` is a table (Arrow, pandas, polars) with the columns `ts` and `type`, an
        `EventBatch`, an `Event`, or any number of them. The engine keeps what it is fed: do not
        change it afterwards.

        With `blocks`, only the events of one source are in the order of their arrival, and each
        source may come as a block: nothing settles until every source of the batch was heard.

        An engine takes one call at a time: while another thread is in one, this is a `BusyError`.
        """
        self._check_open()
        event = self._intake.single(events) if self._order.gathers else None
        if event is not None and self._gathers(event):
            self.load.passed += 1  # to look at a clock would take as long
            return ChangeBatch([])
        with self.load:
            changes = self._fed(events, blocks=blocks) if event is None else self._fed_one(event)
            self._steer()
        return changes

    def _fed(self, events: Events, *, blocks: bool) -> ChangeBatch:
        batch, rows = self._intake.batch(events)
        by = self.options.by
        groups = None if by is None else Coded.of(batch, by, "the engine")
        unread = self._intake.unread(batch)
        order: Any = self._order
        readings = self._read(lambda: order.read(batch, groups, rows, blocks=blocks))
        if unread:
            self.ignored.update(unread)
        return self._taken(lambda: order.take(readings))

    def _fed_one(self, event: Event) -> ChangeBatch:
        """The same for an event that is as usual: it needs no checks."""
        order: Any = self._order
        readings = self._read(lambda: order.read_one(event))
        return self._taken(lambda: order.take(readings))

    def _read(self, read: Callable[[], Any]) -> Any:
        """Read what arrives: a bad event is refused, but a detector that fails has failed."""
        try:
            return read()
        except DetectorError as error:
            self._broken = error
            raise

    def _gathers(self, event: Event) -> bool:
        """Whether an event that is as usual only has to wait."""
        try:
            order: Any = self._order
            gathered: bool = order.gather(event)
            return gathered
        except BaseException as error:
            self._broken = error
            raise

    @alone
    def advance(self, by: Duration | Mapping[Any, Duration]) -> ChangeBatch:
        """Time passes while nothing happens: every clock moves on by this much.

        Events that were held back only because no later event came are released and settle. With
        `order="key"`, you can pass a mapping from keys to durations.
        """
        self._check_open()
        with self.load:
            return self._taken(lambda: self._order.advance(by))

    @alone
    def excuse(self, sources: Sequence[Any]) -> None:
        """Do not wait for these sources until they are heard again, because you know better.

        Without this, a source stops counting once the others have moved on by `quiet`.
        """
        self._check_open()
        self._order.excuse(sources)

    @alone
    def finish(self, *, advance: bool = True) -> ChangeBatch:
        """End the stream: everything settles, and every result that still holds becomes final.

        Time moves past every open window: windows close, and absences are reported. With
        `advance=False`, time stays at the last event.
        """
        if self._ended:
            raise StreamEndedError("expected finish() to be called once, but it was called again")
        self._check_open()
        self._ended = True
        with self.load:
            return self._taken(lambda: self._order.finish(advance=advance))

    def _check_open(self) -> None:
        """Refuse to continue after the end, after an error, or with other detectors."""
        if not self._ended and self._broken is None and len(self.hierarchy) == self._detectors:
            return
        if self._ended:
            raise StreamEndedError(
                "expected no more events after finish(), but feed() was called; "
                "build a new Engine for a new stream"
            )
        self._check_sound()
        added = [node.name for node in self.hierarchy][self._detectors :]
        raise HierarchyError(
            f"{', '.join(map(repr, added))} joined the hierarchy after this engine was "
            "built, and would see no events; add all detectors first, then build the Engine"
        )

    def _check_sound(self) -> None:
        """Refuse to continue after an error: nobody knows what the stages have taken in."""
        if self._broken is not None:
            raise StreamEndedError(
                f"this engine stopped at an error ({self._broken}); restore a checkpoint from "
                "before it into a new engine; errors='skip' passes over events at which a "
                "detector fails"
            )

    def _taken(self, take: Callable[[], Parts]) -> ChangeBatch:
        """Take in what arrives; after an error, nobody knows what the stages have taken in."""
        try:
            return ChangeBatch.of(take())
        except OptionError:
            raise  # an argument that makes no sense was refused before anything was taken in
        except BaseException as error:
            self._broken = error
            raise

    def _steer(self) -> None:
        """At the end of a span, let the control loop adjust the attenuation."""
        span = self._spans.next(self._control.zone.span)
        if span is None:
            return
        self._control.update(self._order.loads(), span)
        if self._control.adaptive:
            self._order.set_attenuation(self._control.values())

    @property
    def stats(self) -> dict[str, DetectorStats]:
        """Current readings of every detector; with order="key", one per detector and key."""
        readings: dict[str, DetectorStats] = self._order.stats(self._spans.last)
        return readings

    @property
    def busy_factor(self) -> float:
        """The share of the last span that the loop was busy; see `LoadMeter`."""
        return self._spans.last.busy_factor

    # Checkpoints

    def identity(self) -> Identity:
        """What a checkpoint depends on: the hierarchy, and the options that affect states."""
        return self.hierarchy.identity() | self.options.identity(self.hierarchy.own(self.options))

    @alone
    def checkpoint(self) -> bytes:
        """The whole state as bytes: plain data, no pickled objects; restore it in a new engine."""
        data, _ = self._state_of(VolumeWriter())
        return data

    @alone
    def checkpoint_apart(self, known: Collection[bytes]) -> tuple[bytes, Written]:
        """A checkpoint without the history that no longer changes, and the volumes that hold it.

        `known` are the names of the volumes that are stored already: only new ones have to be
        stored, before the checkpoint that refers to them. Those that the newest checkpoint does
        not refer to may go.
        """
        data, written = self._state_of(VolumeWriter(set(known) - self._wasteful))
        self._wasteful = written.wasteful
        return data, written

    def _state_of(self, volumes: VolumeWriter) -> tuple[bytes, Written]:
        self._check_sound()
        state = {
            "format": FORMAT,
            "identity": {name: dict(facts) for name, facts in self.identity().facts.items()},
            "seq": self._changes.seq,
            "ended": self._ended,
            "aside": (self._changes.rejected, dict(self.ignored)),
            "order": self._order.state_of(volumes),
        }
        written = volumes.finish()
        return sealed(dumps(state | {"volumes": written.table}, "the engine")), written

    @alone
    def restore(self, checkpoint: bytes, volumes: Mapping[bytes, bytes] = _NOTHING) -> None:
        """Resume from a checkpoint of an engine with the same hierarchy; this one must be new.

        `volumes` are those that a checkpoint from `checkpoint_apart` refers to, by name.
        """
        if not self._order.empty or self._ended:
            raise CheckpointError(
                "expected a new engine to restore into, but this one has already been fed; "
                "build another Engine"
            )
        what = "the checkpoint"
        kept = loads(unsealed(checkpoint, what), what)
        found = kept.get("format") if isinstance(kept, dict) else None
        instead = "start again from the beginning of the stream"
        check_format(found, FORMAT, "the checkpoint", instead)
        kept = shaped(kept, EngineState, what)
        check_identity(self.identity(), kept["identity"], "the checkpoint", instead)
        try:
            self._changes.seq, self._ended = kept["seq"], kept["ended"]
            self._changes.rejected, ignored = kept["aside"]
            self._intake.resume(ignored)
            self._order.resume(kept["order"], VolumeReader(kept["volumes"], volumes))
        except Exception as error:
            # Its checksum is right, so somebody has put it together, or a detector refuses it.
            self._broken = error
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{what} does not fit together: {error!r}; {instead}") from error
