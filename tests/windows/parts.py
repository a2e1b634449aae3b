"""Splitter, instances and merger as actors, so that virtual time can interleave their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.engine.snapshots.spacing import EveryEvents
from betimes.model import Event
from betimes.model.change import content
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


def unexpected(*_arguments: Any) -> None:
    raise AssertionError("nothing fails here")


class SplitterActor:
    """Cuts what arrives; the instances hear of it when their messages arrive."""

    def __init__(self, window: Window, instances: int, schedule: Any, snapshots: int) -> None:
        self.splitter = Splitter(
            window, instances, parse_schedule(schedule, window), EveryEvents(snapshots),
            time=lambda: 0.0, fail=unexpected, mend=unexpected,
        )  # fmt: skip
        self.sent: list[tuple[int, Message]] = []

    def receive(self, arrivals: list[Arrival] | int) -> Iterable[tuple[str, Any]]:
        splitter = self.splitter
        time = arrivals if isinstance(arrivals, int) else -1
        touched = dict.fromkeys(splitter.keys) if isinstance(arrivals, int) else {}
        if not isinstance(arrivals, int):
            touched = self._take(arrivals)
        for key in touched:
            splitter.key(key).advance(time, certain=-1)
            splitter.tell(splitter.key(key))
            splitter.key(key).rest()
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
    def __init__(self, operator: Operator, snapshots: int) -> None:
        self.instance = Instance(operator, EveryEvents(snapshots), time=lambda: 0.0)

    def receive(self, parcel: Parcel) -> Iterable[tuple[str, Any]]:
        return [("merger", message) for message in self.instance.receive(parcel)]


class MergerActor:
    """Keeps what is out."""

    def __init__(self, *, once: bool) -> None:
        self.merger = Merger(once=once)
        self.out: dict[tuple[Any, Place], list[Event]] = {}

    def receive(self, message: Message) -> None:
        _, window, key, first, kept, items = message
        merger = self.merger.key(key)
        merger.take(window, first, kept, items)
        for cause, events in merger.changes():
            self.out[key, cause] = events

    def found(self) -> Counter[tuple[str, int, str]]:
        return Counter(content(event) for events in self.out.values() for event in events)


class World:
    """All parts, in virtual time."""

    def __init__(
        self,
        window: Window,
        operator: Callable[[], Operator],
        *,
        instances: int = 2,
        schedule: Any = "round_robin",
        snapshots: int = 3,
        **options: Any,
    ) -> None:
        made = operator()
        self.splitter = SplitterActor(window, instances, schedule, snapshots)
        self.merger = MergerActor(once=made.once and window.overlaps)
        self.instances = [InstanceActor(operator(), snapshots) for _ in range(instances)]
        actors: dict[str, Any] = {"splitter": self.splitter, "merger": self.merger}
        actors |= {f"instance {n}": actor for n, actor in enumerate(self.instances)}
        self.time = VirtualTime(
            actors, urgent=lambda m: isinstance(m, Parcel) and m.urgent, **options
        )

    def run(self, batches: Iterable[list[Arrival]], every: int = 10) -> None:
        """One batch after the other, then the end of the stream."""
        now = self.time.now
        for batch in batches:
            self.time.at(now, lambda batch=batch: self.time.send("splitter", batch))  # type: ignore[misc]
            now += every
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
        return Counter(message[0] for _, message in self.splitter.sent)
