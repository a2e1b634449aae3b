"""The splitter of a stage: the splitters of all keys, who has which window, and what to send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from betimes.engine.news.outputs import Place
from betimes.engine.snapshots.spacing import Costs, SnapshotModel
from betimes.engine.stages.tactic import END as END_OF_TIME
from betimes.model.event import Event
from betimes.model.stored import require
from betimes.windows.messages import END, EVENT, FORGET, GONE, Closing, Message, Parcel
from betimes.windows.schedules import Schedule
from betimes.windows.shapes import FreeWindow, GapWindow, TimeWindow, Window
from betimes.windows.splitting import Cut, Entry, KeySplitter


class Splitter:
    """Cuts the streams of all keys, and fills the boxes of the instances."""

    def __init__(
        self,
        window: Window,
        instances: int,
        schedule: Schedule,
        spacing: SnapshotModel,
        *,
        time: Callable[[], float],
        fail: Callable[[Any, Place, Event, Exception], None],
        mend: Callable[[Any, Place], None],
    ) -> None:
        self.window = window
        self.timed = isinstance(window, TimeWindow)
        self.may_fail = isinstance(window, FreeWindow | GapWindow)
        """Whether cutting can fail: conditions may raise, and windows may grow too large."""
        self._forgets = isinstance(window, TimeWindow | GapWindow)
        """Whether a key without windows is like one that never was."""
        self.spacing = spacing
        self.costs = Costs(apart=True)
        self.time = time
        self.fail = fail
        self.mend = mend
        self.keys: dict[Any, KeySplitter] = {}
        self._ripe: list[tuple[int, int, Any]] = []
        """When which key has something to forget; earliest first."""
        self._ripens: dict[Any, int] = {}
        self.counts: Counter[str] = Counter()
        """Messages by kind, snapshots and replays."""
        self._schedule = schedule
        self._ids = 0
        self._ordinals = 0
        self._revision = 0
        self._loads = [0] * instances
        """How many open windows each instance has."""
        self._boxes: list[tuple[list[Message], list[Message]]] = []
        """What to send to each instance: urgent or not."""
        self._empty(instances)
        self._urgent = False

    def _empty(self, instances: int) -> None:
        self._boxes = [([], []) for _ in range(instances)]

    def key(self, key: Any) -> KeySplitter:
        """The splitter of a key."""
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = KeySplitter(key, self._ordinals, self)
            self._ordinals += 1
        return found

    def watch(self, key: KeySplitter) -> None:
        """Note when there is something to forget about a key."""
        if key.ripens < END_OF_TIME and self._ripens.get(key.key) != key.ripens:
            self._ripens[key.key] = key.ripens
            heappush(self._ripe, (key.ripens, key.ordinal, key.key))

    def ripe(self, before: int) -> list[KeySplitter]:
        """The keys that have something to forget from before a time; then watch them again."""
        found = []
        while self._ripe and self._ripe[0][0] <= before:
            ripens, _, key = heappop(self._ripe)
            if self._ripens.get(key) == ripens:
                del self._ripens[key]
                found.append(self.keys[key])
        return found

    def give_up(self, key: KeySplitter) -> bool:
        """Forget a key if nothing is left of it; whether that is so."""
        if not self._forgets or key.entries or key.cuts or key.failed:
            return False
        del self.keys[key.key]
        return True

    def tell(self, key: KeySplitter) -> None:
        """Fill the boxes with what has changed for a key; what is about the past is urgent."""
        self._urgent = key.back
        key.tell()
        self._urgent = False

    def parcels(self) -> list[tuple[int, Parcel]]:
        """What was put into the boxes, with the numbers of the instances; they are empty then."""
        boxes = self._boxes
        self._empty(len(boxes))
        if any(urgent for urgent, _ in boxes):
            self.counts[END] += len(boxes)
            for urgent, _ in boxes:
                urgent.append((END,))
        found = []
        for number, (urgent, normal) in enumerate(boxes):
            if urgent:
                found.append((number, Parcel(True, urgent)))
            if normal:
                found.append((number, Parcel(False, normal)))
        return found

    # What splitters of keys use

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def revise(self) -> int:
        self._revision += 1
        return self._revision

    @property
    def loads(self) -> tuple[int, ...]:
        """How many open windows each instance has."""
        return tuple(self._loads)

    def assign(self, number: int) -> int:
        """The instance for a new window."""
        instance = self._schedule(number, self._loads)
        self._loads[instance] += 1
        return instance

    def note_load(
        self, instance: int, before: Closing | None, after: Closing | None, *, deleted: bool = False
    ) -> None:
        """A window was open or closed before, and is now."""
        is_open = after is None and not deleted
        self._loads[instance] += is_open - (before is None)

    def send(self, instance: int, message: Message) -> None:
        urgent, normal = self._boxes[instance]
        (urgent if self._urgent else normal).append(message)
        self.counts[message[0]] += 1

    def supply(self, key: KeySplitter, low: int, high: int, instance: int) -> None:
        """Send an instance those of these events of a key that it does not have."""
        bit = 1 << instance
        for entry in key.entries[low:high]:
            if not entry.sent & bit:
                entry.sent |= bit
                key.pages.touch(entry.place)
                self.send(instance, (EVENT, self.revise(), key.key, entry.place, entry.event))

    def send_gone(self, key: Any, entry: Entry) -> None:
        """Tell those who have an event that it was taken back."""
        self._urgent = True
        for instance in range(len(self._boxes)):
            if entry.sent >> instance & 1:
                self.send(instance, (GONE, self.revise(), key, entry.place))
        entry.sent = 0
        self._urgent = False

    def send_forget(self, key: Any, before: Place, cuts: list[Cut], sent: int) -> None:
        """Tell instances what nobody will ask for again."""
        for instance in range(len(self._boxes)):
            mine = [cut.id for cut in cuts if cut.instance == instance]
            if mine or sent >> instance & 1:
                self.send(instance, (FORGET, self.revise(), key, before, mine))

    # Checkpoints

    def everything(self) -> list[tuple[int, Parcel]]:
        """Parcels with everything that is known, for instances that know nothing."""
        loads = self._loads
        self._loads = [0] * len(loads)  # closing windows is counted again
        for key in self.keys.values():
            key.tell_again()
        self._loads = loads
        return self.parcels()

    def everything_for(self, instance: int) -> list[Message]:
        """All that an instance knows, for another one in its place."""
        found: list[Message] = []
        for key in self.keys.values():
            found += key.everything_for(instance)
        return found

    def state_of(self) -> tuple[int, int, int, list[int]]:
        """How many windows, keys and messages there were, and the loads of the instances."""
        return self._ids, self._ordinals, self._revision, list(self._loads)

    def resume(self, kept: tuple[int, int, int, list[int]]) -> None:
        """Resume from what `state_of` kept, after all keys."""
        self._ids, self._ordinals, self._revision, loads = kept
        require(type(self._revision) is int, "messages about windows have no numbers")
        self._loads = list(loads)
