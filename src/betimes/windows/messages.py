"""What splitter, instances and merger tell each other (thesis *windows*, sections 6.1 and 6.2).

Messages are tuples of plain data that begin with their kind, so that they travel as bytes. A window
has a number that is never used again; an event is known by its key and its place.

| from the splitter | to an instance |
|---|---|
| `EVENT, revision, key, place, event` | an event; an instance gets it once |
| `GONE, revision, key, place` | this event was taken back |
| `OPEN, revision, window, key, first, bounds` | a window begins at this place |
| `ADD, revision, window, first, start` | it begins earlier than was said: with this event |
| `CLOSE, revision, window, closing` | it ends here |
| `NOTCLOSE, revision, window` | it does not end where was said, and is open again |
| `DEL, revision, window, key, first` | it should not have begun |
| `END` | the splitter is done with going back: go on |
| `FORGET, revision, key, place, windows` | earlier events and these windows are done with |

Messages about the past are *urgent* and overtake what waits at an instance. So each carries a
revision, and for each window and event the newest revision counts, whatever comes first.

`closing` is the last place that belongs to the window, the place that ended it, how many events it
has, its end, and whether it is complete. An instance waits with closing until it has that many.

| from an instance | to the merger |
|---|---|
| `MADE, window, key, first, kept, items` | of what it has made, the first `kept` stay; then these |
| `FAILED, key, place, text` | the operator fails at this place |

An item is the place of its cause, a phase (0: an event, 1: the window has ended), and an event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from betimes.engine.news.outputs import Place

EVENT, GONE, OPEN, ADD, CLOSE = "EVENT", "GONE", "OPEN", "ADD", "CLOSE"
NOTCLOSE, DEL, END, FORGET = "NOTCLOSE", "DEL", "END", "FORGET"
MADE, FAILED = "MADE", "FAILED"

Message = tuple[Any, ...]
Item = tuple[Place, int, Any]


class Closing(NamedTuple):
    """How a window ends."""

    last: Place
    """Nothing after this place belongs to it."""
    cause: Place
    """The place that ended it: of its last event, or of a deadline."""
    size: int
    end: int
    complete: bool


class Parcel(NamedTuple):
    """Messages that are sent to an instance together."""

    urgent: bool
    messages: list[Message]
