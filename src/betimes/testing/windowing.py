"""Windows in virtual time: any number of instances, any interleaving, on one core.

Splitter, instances and merger are those that engines use; only processes and time are virtual. Each
is an actor that takes what its messages cost. What the operator itself costs, it spends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.engine.snapshots.spacing import SnapshotModel, parse_snapshots
from betimes.model.change import content
from betimes.model.event import Event
from betimes.testing.virtual import VirtualTime
from betimes.windows.instances import Instance
from betimes.windows.merging import Merger
from betimes.windows.messages import EVENT, GONE, Message, Parcel
from betimes.windows.operators import Operator
from betimes.windows.schedules import parse_schedule
from betimes.windows.shapes import Window
from betimes.windows.splitter import Splitter
from betimes.windows.splitting import Entry

END = 2**63 - 1
Arrival = tuple[Any, Place, Event | None]
"""A key, a place, and what comes there; None takes back what is there."""


def _unexpected(*_arguments: Any) -> None:
    raise AssertionError("nothing fails here")


class SplitterActor:
    """Cuts what arrives; the instances hear of it when their messages arrive."""

    def __init__(
        self,
        window: Window,
        instances: int,
        schedule: Any,
        snapshots: SnapshotModel,
        time: Callable[[], float],
    ) -> None:
        self.splitter = Splitter(
            window, instances, parse_schedule(schedule, window), snapshots, time=time,
            fail=_unexpected, mend=_unexpected,
        )  # fmt: skip
        self.sent: list[tuple[int, Message]] = []

    def receive(self, arrivals: list[Arrival] | int) -> Iterable[tuple[str, Any]]:
        splitter = self.splitter
        time = arrivals if isinstance(arrivals, int) else -1
        touched = dict.fromkeys(splitter.keys) if isinstance(arrivals, int) else {}
        if not isinstance(arrivals, int):
            touched = self._take(arrivals)
        disturbed = sum(splitter.key(key).back for key in touched)
        for key in touched:
            splitter.key(key).advance(time, certain=-1)
            splitter.tell(splitter.key(key))
            splitter.key(key).rest()
        splitter.costs.note_batch(disturbed, 0, max(len(touched), 1))
        for instance, parcel in splitter.parcels():
            self.sent += [(instance, message) for message in parcel.messages]
            yield f"instance {instance}", parcel

    def _take(self, arrivals: list[Arrival]) -> dict[Any, None]:
        """As the tactic does: first what is taken back, then all events of a key at once."""
        known = {(key, place): event for key, place, event in arrivals if event is not None}
        for key, place, event in arrivals:
            if event is None and known.pop((key, place), None) is None:
                self.splitter.key(key).remove(place)
        entries: dict[Any, list[Entry]] = {}
        for (key, place), event in sorted(known.items(), key=lambda item: item[0][1]):
            entries.setdefault(key, []).append(Entry(place, event, 0))
        for key, mine in entries.items():
            self.splitter.key(key).put(mine)
        return dict.fromkeys(key for key, _, _ in arrivals)


class InstanceActor:
    """Runs windows."""

    def __init__(
        self, operator: Operator, snapshots: SnapshotModel, time: Callable[[], float]
    ) -> None:
        self.instance = Instance(operator, snapshots, time=time)

    def receive(self, parcel: Parcel) -> Iterable[tuple[str, Any]]:
        return [("merger", message) for message in self.instance.receive(parcel)]


class MergerActor:
    """Keeps what is out."""

    def __init__(self, *, once: bool) -> None:
        self.merger = Merger(once=once)
        self.out: dict[tuple[Any, Place], list[Event]] = {}
        self.heard: Callable[[Message], None] = lambda _message: None
        """Called with each message."""

    def receive(self, message: Message) -> None:
        _, window, key, first, kept, items = message
        self.heard(message)
        merger = self.merger.key(key)
        merger.take(window, first, kept, items)
        for cause, events in merger.changes():
            self.out[key, cause] = events

    def found(self) -> Counter[tuple[str, int, str]]:
        """What is out, by content."""
        return Counter(content(event) for events in self.out.values() for event in events)


class World:
    """All parts, in virtual time; `operator` makes the operator of an instance.

    It may spend time: `world.time.spend(100)`.
    """

    def __init__(
        self,
        window: Window,
        operator: Callable[[], Operator],
        *,
        instances: int = 2,
        schedule: Any = "round_robin",
        snapshots: Any = 3,
        **options: Any,
    ) -> None:
        def time() -> float:
            return self.time.reading / 1e6

        made, model = operator(), parse_snapshots(snapshots)
        self.splitter = SplitterActor(window, instances, schedule, model, time)
        self.merger = MergerActor(once=made.once and window.overlaps)
        self.instances = [InstanceActor(operator(), model, time) for _ in range(instances)]
        actors: dict[str, Any] = {"splitter": self.splitter, "merger": self.merger}
        actors |= {f"instance {n}": actor for n, actor in enumerate(self.instances)}
        self.time = VirtualTime(
            actors, urgent=lambda m: isinstance(m, Parcel) and m.urgent, **options
        )

    def run(self, batches: Iterable[list[Arrival]], every: int = 10) -> None:
        """One batch after the other, then the end of the stream."""
        self.run_at((every * number, batch) for number, batch in enumerate(batches))

    def run_at(self, batches: Iterable[tuple[int, list[Arrival]]]) -> None:
        """Batches at given times, then the end of the stream."""
        for at, batch in batches:
            self.time.at(at, lambda batch=batch: self.time.send("splitter", batch))  # type: ignore[misc]
        self.time.run()
        self.time.send("splitter", END)
        self.time.run()

    def sent_twice(self) -> list[Any]:
        """Events that an instance got again although it had them."""
        has: Counter[Any] = Counter()
        twice = []
        for instance, (kind, *rest) in self.splitter.sent:
            if kind == EVENT:
                _, key, place, _ = rest
                has[instance, key, place] += 1
                if has[instance, key, place] > 1:
                    twice.append((instance, key, place))
            elif kind == GONE:
                _, key, place = rest
                has[instance, key, place] -= 1
        return twice

    def kinds(self) -> Counter[str]:
        """How many messages of each kind the splitter has sent."""
        return Counter(message[0] for _, message in self.splitter.sent)
