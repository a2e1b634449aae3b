"""The splitter: cuts the ordered stream into windows and tells instances about them.

It keeps the events of each key in order, what it has said about which window, and snapshots of the
cutter. An event that follows all others is cut and passed on. One that lands before others goes
into its place; then the cutter goes back to the last snapshot before it and cuts again, *without
sending events*: what it decides now is compared with what it has said, and only the differences are
sent (thesis *windows*, chapter 6).

* A window that still begins where it began stays where it is, whatever happens to its end.
* A window that should begin, and one that should not have begun a little later, are the same window
  (section 6.1.3): it gets the events in between with ADD, and keeps its instance.
* Other windows that should not have begun are deleted, and those that should begin are opened.
* An instance that has an event never gets it again: for each event, the splitter knows who has it.

Nothing is sent while cutting: what to say follows from the windows before and after.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from betimes.engine.news.digests import encode
from betimes.engine.news.outputs import TIME, Place
from betimes.engine.snapshots.pages import Pages
from betimes.engine.stages.tactic import END
from betimes.model.event import Event
from betimes.windows.cutting import Span, cutter
from betimes.windows.messages import ADD, CLOSE, DEL, EVENT, NOTCLOSE, OPEN, Closing, Message

if TYPE_CHECKING:
    from betimes.windows.splitter import Splitter

START: Place = (-1, TIME, b"")
"""Before everything."""


class Entry(msgspec.Struct, gc=False):
    """An event at the splitter."""

    place: Place
    event: Event
    at: int
    """The arrival with which it was handed out."""
    sent: int = 0
    """Which instances have it, as bits."""


class Cut(msgspec.Struct):
    """A window, as it is and as its instance knows it."""

    number: int
    """Among the windows of its key, in the order in which they begin."""
    first: Place
    """Where it begins: the place of its first event, or the time at which it begins."""
    start: int
    end: int | None
    """Of a window of time, its end; others end with an event."""
    closing: Closing | None = None
    """How it ends; None while it is open."""
    id: int = -1
    """Unique; -1 as long as no instance has it."""
    instance: int = -1
    told: Closing | None = None
    """The end that the instance knows."""


class Save(msgspec.Struct):
    """The cutter as it was after a place."""

    after: Place
    kept: Any
    open: list[Cut]


def _place(entry: Entry) -> Place:
    return entry.place


class KeySplitter:
    """The events and windows of one key."""

    def __init__(self, key: Any, ordinal: int, splitter: Splitter) -> None:
        self.key = key
        self.ordinal = ordinal
        """Which key it is: different keys begin with different instances."""
        self._splitter = splitter
        self.cutter = cutter(splitter.window)
        self.entries: list[Entry] = []
        self.failed: dict[Place, Entry] = {}
        """Events that are left out because something fails at them."""
        self.cuts: list[Cut] = []
        """Windows in the order in which they begin."""
        self.open: dict[int, Cut] = {}
        """The open ones, by the cutter's numbers."""
        self.saves = [Save(START, self.cutter.snapshot(), [])]
        self.pages = Pages()
        """Which of all this has changed since it was written (`betimes.windows.keeping`)."""
        self.last: Place = START
        """The last event or deadline that was cut."""
        self._reached = START  # `last` before this batch: what lands before it is late
        self.since: Place | None = None
        """The earliest place that changes in this batch; None if only time passes."""
        self.back = False
        """Whether it went back in this batch."""
        self._newest = -1
        """The arrival with which something was taken back in this batch."""
        self._arrivals: list[int] | None = None
        """The newest arrival along what changed in this batch, once somebody asks."""
        self._new: list[Cut] = []
        """The windows that have begun or ended since instances were told."""
        self._old: dict[Place, Cut] = {}
        """The windows that had begun since the snapshot, by where they began."""

    # What arrives

    def put(self, entries: list[Entry]) -> int:
        """Take in events, in order; return how many of them land before what was cut."""
        behind = bisect_left(entries, self.last, key=_place)
        # It may have gone back in this batch: then there are others that are not cut, either.
        newest = self.entries[-1].place if self.entries else START
        follow = newest < entries[0].place
        self.entries += entries
        for entry in entries:
            self.pages.add(entry.place, last=entry.place > newest)
        if not follow:
            self.entries.sort(key=_place)
            self._splitter.counts["avoided"] += not behind
        if behind or self.failed:
            # Events that are left out come after the last one that was cut.
            self._go_back(entries[0].place)
        self._change(entries[0].place)
        return bisect_left(entries, self._reached, key=_place)

    def remove(self, place: Place, at: int = -1) -> Entry:
        """Take an event out; the cutter goes back."""
        if place in self.failed:
            return self.failed.pop(place)
        entry = self.entries.pop(bisect_left(self.entries, place, key=_place))
        assert entry.place == place, f"no event of key {self.key!r} at {place}"
        self.pages.remove(place)
        self._newest = max(self._newest, at)
        self._splitter.send_gone(self.key, entry)
        self._change(place)
        self._go_back(place)
        return entry

    def leave_out(self, place: Place) -> None:
        """Something fails at an event: go on as if it had never come."""
        entry = self.remove(place)
        self.failed[place] = entry

    def _change(self, place: Place) -> None:
        self._arrivals = None
        self.since = place if self.since is None else min(self.since, place)

    def _go_back(self, place: Place) -> None:
        """Return to the last snapshot before a place; what was cut since is cut again."""
        for failed in [p for p in self.failed if p >= place]:
            # Without what was wrong before it, it may not fail any more.
            self._splitter.mend(self.key, failed)
            self.entries.append(self.failed.pop(failed))
            self.pages.add(failed, last=False)
            self.entries.sort(key=_place)
        if place > self.last:
            return
        self.back = True
        self._splitter.counts["recoveries"] += 1
        while len(self.saves) > 1 and self.saves[-1].after >= place:
            self.pages.touch(self.saves.pop().after)
        save = self.saves[-1]
        self.cutter.restore(save.kept)
        self.last = save.after
        kept = {id(cut) for cut in save.open}
        stay = []
        for cut in self.cuts:
            if id(cut) in kept or (cut.closing is not None and cut.closing.cause <= save.after):
                stay.append(cut)
            elif cut.id >= 0:
                self._old[cut.first] = cut
        self.cuts = stay
        self.open = dict(zip(self.cutter.open, save.open, strict=True))
        for cut in save.open:
            cut.closing = None

    # Cutting

    def advance(self, time: int, certain: int) -> None:
        """Cut what has not been cut, and let time pass; events up to `certain` are in order."""
        splitter = self._splitter
        row = bisect_right(self.entries, self.last, key=_place)
        todo, began = len(self.entries) - row, splitter.time()
        since = row - bisect_right(self.entries, self.saves[-1].after, key=_place)
        while row < len(self.entries):
            entry = self.entries[row]
            speculative = entry.place[0] > certain
            if since >= splitter.spacing.length(splitter.costs, speculative=speculative):
                self.save()
                since = 0
            self._pass_time(entry.event.ts)
            if self._take(entry):
                row += 1
                since += 1
            else:
                self.failed[entry.place] = self.entries.pop(row)
                self.pages.remove(entry.place)
                splitter.send_gone(self.key, entry)
        if todo:
            splitter.costs.note_run(splitter.time() - began, todo, 0)
        self._pass_time(time)

    def save(self) -> None:
        """Keep what the cutter knows, to go back to."""
        began = self._splitter.time()
        open_ = [self.open[number] for number in self.cutter.open]
        self.saves.append(Save(self.last, self.cutter.snapshot(), open_))
        self.pages.touch(self.last)
        self._splitter.costs.note_snapshot(self._splitter.time() - began)
        self._splitter.counts["snapshots"] += 1

    def _pass_time(self, ts: int) -> None:
        while (deadline := self.cutter.deadline) is not None and deadline <= ts:
            place = (deadline, TIME, encode(self.key))
            for span in self.cutter.due(deadline):
                self._end(span, place)
            self.last = max(self.last, place)

    def _take(self, entry: Entry) -> bool:
        """Cut an event; False if that fails."""
        kept = self.cutter.snapshot() if self._splitter.may_fail else None
        try:
            begun, ended = self.cutter.take(entry.event)
        except Exception as error:
            if kept is None:
                raise
            self.cutter.restore(kept)
            self._splitter.fail(self.key, entry.place, entry.event, error)
            return False
        self.last = entry.place
        for span in begun:
            self._begin(span, entry)
        for span in ended:
            self._end(span, entry.place)
        return True

    def _begin(self, span: Span, entry: Entry) -> None:
        timed = self._splitter.timed
        first: Place = (span.start, TIME, b"") if timed else entry.place
        cut = self._old.pop(first, None)
        if cut is None:
            cut = Cut(span._number, first, span.start, span.end if timed else None)
        cut.closing = None
        self.cuts.append(cut)
        self._new.append(cut)
        self.open[span._number] = cut

    def _end(self, span: Span, cause: Place) -> None:
        cut = self.open.pop(span._number)
        last = cause if cause[1] != TIME else (span.end, TIME, b"")
        if cause[1] == TIME and not self._splitter.timed:
            # Time has ended it, and its last event belongs to it.
            last = self.entries[bisect_left(self.entries, cause, key=_place) - 1].place
        cut.closing = Closing(last, cause, span.count, span.end, span.complete)
        self._new.append(cut)

    # Telling

    def tell(self) -> None:
        """Send what differs between the windows and what instances know about them."""
        splitter = self._splitter
        olds = sorted(self._old.values(), key=lambda cut: cut.first)
        self._old = {}
        low = len(self.entries)
        if self.since is not None:
            low = bisect_left(self.entries, self.since, key=_place)
        for cut in self._touched():
            new = cut.id < 0
            if new and not self._is_later(cut, olds):
                cut.id = splitter.next_id()
                cut.instance = splitter.assign(self.ordinal + cut.number)
                self._open_at(cut)
            self._tell(cut, 0 if new else low)
        for cut in olds:
            self.pages.touch(cut.first)
            splitter.send(cut.instance, (DEL, splitter.revise(), cut.id, self.key, cut.first))
            splitter.note_load(cut.instance, cut.told, None, deleted=True)

    def _open_at(self, cut: Cut) -> None:
        self.pages.touch(cut.first)
        revision, bounds = self._splitter.revise(), (cut.start, cut.end)
        message = (OPEN, revision, cut.id, self.key, cut.first, bounds)
        self._splitter.send(cut.instance, message)

    def rest(self) -> None:
        """A batch is done."""
        self.since, self.back, self._newest, self._arrivals = None, False, -1, None
        self.reached(self.last)

    def reached(self, place: Place) -> None:
        """Everything up to a place was cut before the next batch."""
        self.last = self._reached = place

    def _touched(self) -> list[Cut]:
        """The windows that may differ from what is known about them, in order."""
        # What comes only goes to windows that are open, or were until something changed.
        found = self._new if self.since is None else [*self._new, *self.open.values()]
        self._new = []
        return sorted({id(cut): cut for cut in found}.values(), key=lambda cut: cut.first)

    def _is_later(self, cut: Cut, olds: list[Cut]) -> bool:
        """Whether a new window is an old one that begins later; then it begins earlier now."""
        for row, old in enumerate(olds):
            if old.first > cut.first:
                if cut.closing is not None and old.first > cut.closing.last:
                    return False
                cut.id, cut.instance, cut.told = old.id, old.instance, old.told
                self.pages.touch(cut.first)
                self.pages.touch(old.first)
                revision = self._splitter.revise()
                self._splitter.send(cut.instance, (ADD, revision, cut.id, cut.first, cut.start))
                del olds[row]
                return True
        return False

    def _tell(self, cut: Cut, low: int) -> None:
        splitter, closing = self._splitter, cut.closing
        high = len(self.entries)
        if low < high:
            low = max(low, bisect_left(self.entries, cut.first, key=_place))
            if closing is not None:
                high = bisect_right(self.entries, closing.last, key=_place)
            splitter.supply(self, low, high, cut.instance)
        if closing == cut.told:
            return
        self.pages.touch(cut.first)
        splitter.note_load(cut.instance, cut.told, closing)
        if closing is None:
            splitter.send(cut.instance, (NOTCLOSE, splitter.revise(), cut.id))
        else:
            splitter.send(cut.instance, (CLOSE, splitter.revise(), cut.id, tuple(closing)))
        cut.told = closing

    # Looking things up

    def known(self, cause: Place) -> int:
        """The arrival with which everything that this batch changed up to a place was known."""
        if self.since is None:
            return self._newest
        low = bisect_left(self.entries, self.since, key=_place)
        if self._arrivals is None:
            changed = (entry.at for entry in self.entries[low:])
            self._arrivals = list(accumulate(changed, max, initial=self._newest))
        return self._arrivals[max(bisect_right(self.entries, cause, key=_place) - low, 0)]

    def event(self, place: Place) -> Event:
        """The event at a place."""
        return self.entries[bisect_left(self.entries, place, key=_place)].event

    # Memory

    def forget(self, before: int) -> Place:
        """Nothing goes back to before this time: drop what only that would need.

        Returns the place from which on it can still go back.
        """
        if self.last[0] < before and self.saves[-1].after < self.last:
            self.save()
        keep = bisect_left(self.saves, before, key=lambda save: save.after[0]) - 1
        if keep > 0:
            for save in self.saves[: keep + 1]:
                self.pages.touch(save.after)
            del self.saves[:keep]
        oldest = self.saves[0].after
        gone = [c for c in self.cuts if c.closing is not None and c.closing.cause <= oldest]
        for cut in gone:
            self.pages.touch(cut.first)
        if gone:
            self.cuts = [c for c in self.cuts if c.closing is None or c.closing.cause > oldest]
        need = min([oldest, *(cut.first for cut in self.cuts)])
        low = bisect_left(self.entries, need, key=_place)
        self.failed = {place: e for place, e in self.failed.items() if place >= oldest}
        if gone or low:
            sent = 0
            for entry in self.entries[:low]:
                sent |= entry.sent
            del self.entries[:low]
            self.pages.forget(low, self.entries[0].place if self.entries else None)
            self._splitter.send_forget(self.key, need, gone, sent)
        return oldest

    @property
    def ripens(self) -> int:
        """There is something to forget before this time."""
        if len(self.saves) > 1:
            return self.saves[1].after[0] + 1
        return self.last[0] + 1 if self.last > self.saves[0].after else END

    @property
    def remembered(self) -> int:
        """How many events it could go back to."""
        return len(self.entries) - bisect_right(self.entries, self.saves[0].after, key=_place)

    def pieces(self) -> list[tuple[int, int]]:
        """What can be forgotten, by snapshots: the time after which each begins, and its size."""
        borders = [bisect_right(self.entries, save.after, key=_place) for save in self.saves]
        sizes = (high - low for low, high in pairwise([*borders, len(self.entries)]))
        return [(s.after[0], size) for s, size in zip(self.saves, sizes, strict=True)]

    # Checkpoints

    def everything_for(self, instance: int) -> list[Message]:
        """What an instance knows of this key."""
        revise = self._splitter.revise
        found: list[Message] = [
            (EVENT, revise(), self.key, entry.place, entry.event)
            for entry in self.entries
            if entry.sent >> instance & 1
        ]
        for cut in self.cuts:
            if cut.instance == instance:
                bounds = (cut.start, cut.end)
                found.append((OPEN, revise(), cut.id, self.key, cut.first, bounds))
                if cut.told is not None:
                    found.append((CLOSE, revise(), cut.id, tuple(cut.told)))
        return found

    def tell_again(self) -> None:
        """Tell everything to instances that know nothing, which changes nothing here."""
        kept = [page.kept for page in self.pages.all]
        for entry in self.entries:
            entry.sent = 0
        for cut in self.cuts:
            cut.told = None
            self._open_at(cut)
            self._tell(cut, 0)
        for page, where in zip(self.pages.all, kept, strict=True):
            page.kept = where
