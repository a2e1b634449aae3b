"""Rounds and messages: what a driver and its nodes tell each other, as bytes.

A **round** is a batch of input, or time that passes, or the end of the stream. The driver numbers
rounds and tells every node of each. A stage takes round `n` when it has taken round `n - 1` and has
heard what its publishers say in round `n`. So what it says is a function of the rounds up to `n`:
it depends neither on where stages live, nor on when messages come. That is the whole contract:

* a placed hierarchy says in each round exactly what one engine would have said;
* a message may come late, early, or twice: it names its stage and its round, so it waits for its
  turn, or is dropped;
* a node that has died is built again from the same messages, and says the same again;
* a stage moves between two rounds: its state after round `n - 1` is all that there is to move.

**Who lives where** (`homes`) is a part of a round, so everyone who has heard of the round agrees on
it, and knows to whom news of that round has to go. A stage may have several homes. Each of them
takes the round, and the first one speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from betimes.engine.changes import Standing
from betimes.engine.load import Load
from betimes.engine.news.news import News
from betimes.model import EventBatch
from betimes.model.codec import dumps, loads
from betimes.model.payloads import read, written

DRIVER = "driver"
"""The name of the one who numbers rounds and writes changes; no node has it."""

ARRIVE, PASS, END = range(3)
"""Kinds of rounds: input arrives, time passes, the stream ends."""

Homes = Mapping[str, tuple[str, ...]]
"""The nodes where each stage lives; the first one speaks."""

_WHAT = "a message between nodes"


class Round(NamedTuple):
    """What happens in a round."""

    number: int
    kind: int
    first: int
    """The number of the first arrival."""
    time: int
    """Up to where time passes, or where the stream ends."""
    batch: EventBatch
    homes: dict[str, tuple[str, ...]] | None
    """None: as in the round before."""
    attenuation: dict[str, float] | None
    """None: as in the round before."""
    fresh: bool
    """Whether stages begin here, instead of resuming."""
    saved: bool
    """Whether the driver wants the states before this round, to build dead nodes again."""
    measured: bool
    """Whether stages tell what they have done since they were asked last."""


class Told(NamedTuple):
    """What a stage says in a round, and what the driver wants to know of it."""

    stage: str
    number: int
    news: News
    clock: int | None
    standing: Standing | None
    """If events were left out."""
    load: Load | None
    """If the round asks for it."""


class State(NamedTuple):
    """A stage as it is before a round."""

    stage: str
    number: int
    data: bytes


class Ask(NamedTuple):
    """The driver asks for the state of the stages that a node has before a round."""

    number: int


class Begin(NamedTuple):
    """What a node is called, and the first round that it hears of."""

    name: str
    number: int
    expects: dict[str, int]
    """Stages whose states before that round are coming, wherever it says they live, and up to which
    round they stay: the state with which they would come back may have died with another node."""


class Reached(NamedTuple):
    """A home that does not speak has taken a round, too."""

    node: str
    stage: str
    number: int


Message = Round | Told | State | Ask | Begin | Reached
Said = tuple[tuple[str, ...], Message]
"""A message, and for whom it is."""
_KINDS: tuple[type[Message], ...] = (Round, Told, State, Ask, Begin, Reached)


def encoded(messages: Sequence[Message]) -> bytes:
    """Messages as bytes, together: most of them are a few numbers."""
    return msgspec.msgpack.encode([(_KINDS.index(type(m)), *_plain(m)) for m in messages])


def decoded(data: bytes) -> list[Message]:
    """What `encoded` wrote."""
    return [_whole(_KINDS[kind], fields) for kind, *fields in msgspec.msgpack.decode(data)]


def bundled(said: Sequence[Said]) -> list[tuple[tuple[str, ...], bytes]]:
    """What a node says, as bytes: one bundle for each audience."""
    bundles: dict[tuple[str, ...], list[Message]] = {}
    for audience, message in said:
        bundles.setdefault(audience, []).append(message)
    return [(audience, encoded(messages)) for audience, messages in bundles.items()]


def _plain(message: Message) -> Sequence[Any]:
    """Its fields as plain values."""
    if isinstance(message, Round):
        batch = message.batch
        columns = [batch.ts, batch.codes, batch.types, written(batch.payload)]
        return message._replace(batch=dumps(columns, _WHAT))  # type: ignore[arg-type]
    if isinstance(message, Told):
        told = message.news.to_bytes() if says(message.news) else _still(message.news)
        return message._replace(news=told)  # type: ignore[arg-type]
    return message


def _whole(kind: type[Message], fields: list[Any]) -> Message:
    """The message that `_plain` took apart."""
    if kind is Round:
        ts, codes, types, payload = loads(fields[4], _WHAT)
        fields[4] = EventBatch(ts, codes, tuple(types), read(payload))
        if fields[5] is not None:
            fields[5] = {name: tuple(homes) for name, homes in fields[5].items()}
    elif kind is Told:
        told = fields[2]
        fields[2] = News.from_bytes(told) if isinstance(told, bytes) else _of_still(told)
        fields[4] = None if fields[4] is None else Standing(*fields[4])
        fields[5] = None if fields[5] is None else Load(**fields[5])
    message: Message = kind(*fields)
    return message


def says(news: News) -> bool:
    """Whether it says more than how far it has come: most news does not."""
    return bool(not news.quiet or news.late or news.rejected or news.notices or news.voids)


def _still(news: News) -> list[int]:
    return [news.may_change_from, news.reach]


def _of_still(told: list[int]) -> News:
    return News(may_change_from=told[0], reach=told[1])


NO_EVENTS = EventBatch(np.empty(0, np.int64), np.empty(0, np.int32), ())
