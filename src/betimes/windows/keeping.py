"""What a splitter remembers of a key, as data: pages that are written once, and the rest.

A page has the events, windows and snapshots between its borders. The rest is short: the windows
that are open, how to go on cutting, and the earliest snapshot, which may belong to no page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from betimes.engine.news.outputs import Place
from betimes.model.stored import Int, require, shaped
from betimes.windows.cutting import Kept
from betimes.windows.messages import Closing
from betimes.windows.splitting import Cut, Entry, KeySplitter, Save

_WHAT = "a cutter of windows"
T = TypeVar("T")


def between(
    rows: list[T], place: Callable[[T], Place], low: Place | None, high: Place | None
) -> list[T]:
    """Those in a list that lie between two places; None is beyond everything."""
    first = 0 if low is None else bisect_left(rows, low, key=place)
    return rows[first : len(rows) if high is None else bisect_left(rows, high, key=place)]


def begins(cut: Cut) -> Place:
    """The place where a window begins."""
    return cut.first


def page_of(key: KeySplitter, low: Place | None, high: Place | None, *, sent: bool) -> Any:
    """What a page has; with `sent`, also which instances have its events."""
    entries = between(key.entries, lambda entry: entry.place, low, high)
    saves = between(key.saves[1:], lambda save: save.after, low, high)
    return (
        [(e.place, e.event, e.at, e.sent if sent else 0) for e in entries],
        [_written(cut) for cut in between(key.cuts, begins, low, high)],
        [_saved(save) for save in saves],
    )


def rest_of(key: KeySplitter) -> dict[str, Any]:
    """What is in no page."""
    return {
        "ordinal": key.ordinal,
        "cutter": key.cutter.snapshot(),
        "failed": [(e.place, e.event, e.at) for e in key.failed.values()],
        "open": [(number, cut.id) for number, cut in key.open.items()],
        "save": _saved(key.saves[0]),
        "last": key.last,
    }


def resume_key(key: KeySplitter, rest: dict[str, Any], pages: Iterable[Any]) -> None:
    """Resume from these; instances are as they were, and pages are known already."""
    key.ordinal = shaped(rest["ordinal"], Int, _WHAT)
    key.cutter.restore(shaped(rest["cutter"], Kept, _WHAT))
    key.failed = {entry[0]: Entry(*entry) for entry in rest["failed"]}
    saves = [rest["save"]]
    for entries, cuts, more in pages:
        key.entries += [Entry(*entry) for entry in entries]
        key.cuts += [_read(cut) for cut in cuts]
        saves += more
    require(all(type(entry.sent) is int for entry in key.entries), "who has an event is lost")
    numbers = (number for cut in key.cuts for number in (cut.number, cut.id, cut.instance))
    require(all(type(number) is int for number in numbers), "windows have no numbers")
    known = {cut.id: cut for cut in key.cuts}
    key.open = {number: _known(known, cut) for number, cut in rest["open"]}
    require(key.open.keys() == key.cutter.open.keys(), "other windows are open than were cut")
    key.saves = [Save(a, k, [_known(known, cut) for cut in cuts]) for a, k, cuts in saves]
    for save in key.saves:
        spans = shaped(save.kept, Kept, _WHAT)[1]
        require(len(spans) == len(save.open), "other windows were open than were cut")
    key.reached(rest["last"])


def _saved(save: Save) -> tuple[Place, Any, list[int]]:
    return save.after, save.kept, [cut.id for cut in save.open]


def _written(cut: Cut) -> tuple[Any, ...]:
    closing = None if cut.closing is None else tuple(cut.closing)
    return cut.number, cut.first, cut.start, cut.end, closing, cut.id, cut.instance


def _read(kept: tuple[Any, ...]) -> Cut:
    number, first, start, end, closing, window, instance = kept
    ending = None if closing is None else Closing(*closing)
    # After a batch, instances have been told everything.
    return Cut(number, first, start, end, ending, window, instance, ending)


def _known(cuts: dict[int, Cut], window: Any) -> Cut:
    require(window in cuts, "a window is missing")
    return cuts[window]
