"""A host whose state is stored outside of it, in small pieces, so that nothing is lost.

Three things are stored per slot:

* the *head*: one small record, read and written with every batch;
* the *log*: a saved host, the *base*, and the batches that were fed since, exactly as they came;
* the *volumes* that the base refers to: history that no longer changes (`betimes.model.volumes`).

A batch is appended to the log. When the log has outgrown what the last base wrote, a new base
replaces it, together with the volumes that are new. So how much a batch writes depends on the batch
and not on the state, and each base is paid for by the batches since the last one.

A live host stays in memory, and what is stored is the truth. Whether they agree is told by the
**token**: a hash over everything that was ever fed, in order. A host with the token of the head has
been fed exactly what the head says, so it is in exactly that state; any other is thrown away and
rebuilt from base and log. A batch that runs again therefore begins where the first attempt began,
whatever happened to that, and gives the same rows. The attenuation does depend on the load, so it
is decided after each batch for the next one, and stored with that one in the log.

The load is how long the host works, against the time from one batch to the next. What shares the
processor with it, or waits for it, is known only outside; see `Around`. That tells how busy all of
it was with the batch before, and since when it has been at work on this one: if that is too long
already, the next batch need not wait until it is told so. If batches have an interval, a host also
knows for how many rows there is *room* in it. A batch with more is handled with attenuation 1, so
an overload is met in the first batch that has it. The room is stored with the attenuation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import inf

import msgspec
import pyarrow as pa

from betimes.engine import CheckpointError, Engine
from betimes.engine.attenuation import Attenuation
from betimes.host.host import Host, HostState, Setup, nowhere
from betimes.host.published import Publisher
from betimes.model.codec import unsealed
from betimes.model.fitting import check_identity, read_stored, stored
from betimes.model.identity import Facts, Identity
from betimes.model.payloads import sound
from betimes.model.stored import require

FORMAT = 7
"""Layout of head and log; those of another layout are refused."""

LEAST_LOG = 4 * 2**20
"""Bytes. A shorter log is never worth a checkpoint: feeding it takes well under a second."""

LOG_PER_BASE = 2
"""The log may grow to this many times the base; more would make restarts slow."""

LEAST_SHARE = 0.01
"""The share of its time that a host has to work to tell how long larger batches would take."""


_INSTEAD = "start with a new checkpoint location"


class Head(msgspec.Struct):
    """What is known about a host without having it."""

    identity: Mapping[str, Facts]
    token: bytes
    attenuation: float
    """For the next batch, if there is room for it."""
    clock: int | None = None
    """The time of the stream, if it is beyond doubt."""
    timer: int = 0
    """When to check for silence next, in milliseconds of the wall clock."""
    batches: int = 0
    log_bytes: int = 0
    base_bytes: int = 0
    """What the last base wrote, with its volumes."""
    base: bytes = b""
    """The digest of the last base, and so of the names of the volumes that are stored."""
    room: float = inf
    """How many rows of the input there is time for, without attenuation 1."""
    format: int = FORMAT

    def attenuation_for(self, rows: int) -> float:
        """The attenuation for the next batch, if it has so many rows of the input."""
        return 1.0 if rows > self.room else self.attenuation


class Entry(msgspec.Struct, tag="batch"):
    """One batch in the log: Arrow streams in order of arrival, and how they were handled."""

    number: int
    attenuation: float
    parts: list[bytes]
    now: int = 0
    """The wall clock, in milliseconds."""
    idle: int = 0
    """Milliseconds without an event after which time passes; 0 if it never does."""
    seen: int = 0
    """How many rows of the input were read for it."""
    told: list[bytes] = []
    """What others have said to it, if it is a part of something larger."""


class Around(msgspec.Struct, frozen=True):
    """What is known outside of a host, and changes no result: the load, and what others did."""

    busy: float = 0.0
    """The busy factor of all that the host is a part of; 0 if it is not known."""
    sharing: float = 1.0
    """How many hosts share a processor, and take turns."""
    foreseen: list[tuple[int, bytes]] = []
    """Transactions that tasks have run ahead, with the number of the task."""
    place: str = ""
    """Where to publish what such tasks have to know; empty if there are none."""
    elapsed: float = 0.0
    """How many seconds the batch had taken outside when the host got it."""
    interval: float = inf
    """Seconds between two batches that are in time."""
    floor: float = 0.0
    """Seconds of a batch that do not count as work, because an empty one takes them, too."""

    def so_far(self, seconds: float) -> float:
        """The busy factor if the batch ended now, this long after the host got it."""
        took = self.elapsed + seconds
        return max(0.0, took - self.floor) / max(took, self.interval, 0.001)


class Base(msgspec.Struct, tag="base"):
    """A saved host; it includes the batches before this number."""

    number: int
    token: bytes
    host: HostState


ALONE = Around()


class Rebase(msgspec.Struct):
    """A saved host to store, and what else that takes."""

    base: bytes
    names: list[bytes]
    """All volumes that it refers to; others may go."""
    new: dict[bytes, bytes]
    """Those that are not stored yet, by name."""

    @property
    def size(self) -> int:
        """How much there is to write."""
        return len(self.base) + sum(map(len, self.new.values()))


@dataclass(frozen=True)
class Fed:
    """What comes of feeding a batch."""

    changes: pa.Table
    head: Head
    base: Rebase | None
    """A saved host, if it is time for one; it replaces the log."""


class Logged:
    """Something that has been fed what its token says; below, it says what it is."""

    def __init__(self, identity: Identity, clock: Callable[[], float]) -> None:
        self.token = first_token(identity)
        self._clock = clock
        self._base: tuple[bytes, frozenset[bytes]] = b"", frozenset()
        """The digest of the last base that it knows of, and which volumes belong to it."""

    @property
    def sure_clock(self) -> int | None:
        """The time of the stream, if it is beyond doubt."""
        return None

    def check(self, entry: Entry) -> None:
        """Refuse a batch from a log that is damaged."""

    def apply(self, entry: Entry) -> pa.Table:
        """Take a batch; return what comes of it."""
        raise NotImplementedError

    def take(self, entry: Entry, around: Around) -> pa.Table:  # noqa: ARG002
        """Take a batch that was not taken before."""
        return self.apply(entry)

    def save_apart(self, known: Collection[bytes]) -> tuple[HostState, dict[bytes, bytes]]:
        """All that is needed to resume, and volumes that are not known."""
        raise NotImplementedError

    def restore(self, state: HostState, volumes: Callable[[bytes], bytes | None]) -> None:
        """Resume from a saved state."""
        raise NotImplementedError

    def steer(
        self,
        head: Head,
        entry: Entry,  # noqa: ARG002
        began: float,  # noqa: ARG002
        around: Around,  # noqa: ARG002
    ) -> tuple[float, float]:
        """The attenuation for the next batch, and for how many rows there is room in it."""
        return head.attenuation, head.room

    def rebuild(
        self,
        log: Iterable[bytes],
        token: bytes | None = None,
        volumes: Callable[[bytes], bytes | None] = nowhere,
    ) -> None:
        """Become the host that a log describes, and that the head knows by this token.

        Without a token, nothing but the log says what was fed. `volumes` looks them up by name.
        """
        written = [(_read(entry), entry) for entry in log]
        fed = 0
        for entry, data in sorted(written, key=_place):
            if isinstance(entry, Base):
                self.restore(entry.host, volumes)
                self.token = entry.token
                self._base = _digest(data), frozenset(entry.host.volumes)
            else:
                require(entry.number == fed, f"batch {fed} is missing in the log of a slot")
                self.check(entry)
                self.apply(entry)
                self.token = _next(self.token, data)
            fed = entry.number + (not isinstance(entry, Base))
        require(token in (None, self.token), "the log of a slot does not end where its head does")

    def feed(self, head: Head, entry: Entry, around: Around = ALONE) -> Fed:
        """Take a batch that follows what the head says."""
        began = self._clock()
        changes = self.take(entry, around)
        attenuation, room = self.steer(head, entry, began, around)
        written = stored(entry)
        self.token = _next(head.token, written)
        after = Head(
            head.identity, self.token, attenuation, self.sure_clock, entry.now + entry.idle,
            head.batches + 1, head.log_bytes + len(written), head.base_bytes, head.base, room,
        )  # fmt: skip
        if after.log_bytes < max(LEAST_LOG, LOG_PER_BASE * after.base_bytes):
            return Fed(changes, after, None)
        base = self._rebase(head, after.batches)
        after.base, after.base_bytes, after.log_bytes = self._base[0], base.size, 0
        return Fed(changes, after, base)

    def _rebase(self, head: Head, batches: int) -> Rebase:
        """A new base. Another attempt may have stored the last one, with other volumes."""
        digest, known = self._base
        state, new = self.save_apart(known if digest == head.base else ())
        base = stored(Base(batches, self.token, state))
        self._base = _digest(base), frozenset(state.volumes)
        return Rebase(base, state.volumes, new)


class LoggedHost(Logged):
    """A host that has been fed what its token says."""

    def __init__(
        self, setup: Setup, identity: Identity, *, slot: int, clock: Callable[[], float]
    ) -> None:
        super().__init__(identity, clock)
        self.adaptive = setup.adaptive
        self._host = Host(setup, slot=slot)
        # Controlled from outside, so that the log can say how each batch was handled.
        self._host.engine.hold_attenuation(1.0)
        self._steering = Attenuation(setup.options.zone)
        self._began: float | None = None
        self._attenuation: float | None = None
        self.busy_factor = 0.0
        """That of all that the host is a part of, as it was judged after the last batch."""
        self._publisher = Publisher()

    @property
    def engine(self) -> Engine:
        return self._host.engine

    @property
    def sure_clock(self) -> int | None:
        return self.engine.sure_clock

    def check(self, entry: Entry) -> None:
        for part in entry.parts:
            sound(pa.ipc.open_stream(part).read_all())

    def apply(self, entry: Entry) -> pa.Table:
        if entry.attenuation != self._attenuation and self.adaptive:
            self.engine.hold_attenuation(entry.attenuation)
            self._attenuation = entry.attenuation
        tables = []
        if entry.parts:
            rows = pa.concat_tables([pa.ipc.open_stream(part).read_all() for part in entry.parts])
            tables.append(self._host.feed(rows, now=entry.now if entry.idle else None))
        if entry.idle:
            tables.append(self._host.pass_time(entry.now, entry.idle))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def take(self, entry: Entry, around: Around) -> pa.Table:
        self._host.foresight.take(around.foreseen)
        changes = self.apply(entry)
        if around.place:
            self._publisher.publish(around.place, entry.number, self._host.foresight)
        return changes

    def save_apart(self, known: Collection[bytes]) -> tuple[HostState, dict[bytes, bytes]]:
        return self._host.save_apart(known)

    def restore(self, state: HostState, volumes: Callable[[bytes], bytes | None]) -> None:
        self._host.restore(state, volumes)

    def steer(self, head: Head, entry: Entry, began: float, around: Around) -> tuple[float, float]:
        """As low as the time between batches allows."""
        ended, before, self._began = self._clock(), self._began, began
        if before is None or began <= before:
            return head.attenuation, head.room
        own = around.sharing * (ended - began) / (began - before)
        self.busy_factor = min(1.0, max(own, around.busy, around.so_far(ended - began)))
        if not self.adaptive:
            return head.attenuation, inf
        self._steering.value = head.attenuation
        self._steering.steer(self.busy_factor)
        judges = entry.seen > 0 and own >= LEAST_SHARE and 0 < around.interval < inf
        return self._steering.value, self._room(head, entry) if judges else inf

    def _room(self, head: Head, entry: Entry) -> float:
        """For how many rows there is time, if they take as long as those of the last batch.

        A batch that was handled with attenuation 1 because it had too many tells only that there
        is more room, if there was time to spare.
        """
        if entry.seen <= head.room:
            return entry.seen / self.busy_factor
        return 2 * head.room if self.busy_factor < self._steering.zone.low else head.room

    def finish(self, *, advance: bool = True) -> pa.Table:
        """The end of the stream: everything settles; with `advance`, open windows close."""
        return self._host.finish(advance=advance)


def _read(entry: bytes) -> Entry | Base:
    """An entry of a log."""
    what = "the log of a slot"
    try:
        return msgspec.msgpack.decode(unsealed(entry, what, _INSTEAD), type=Entry | Base)
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{what} is damaged: {error}; {_INSTEAD}") from None


def _place(written: tuple[Entry | Base, bytes]) -> tuple[int, bool]:
    """Where an entry belongs: a base comes before the batch that follows it."""
    entry, _ = written
    return entry.number, isinstance(entry, Entry)


def _digest(base: bytes) -> bytes:
    return blake2b(base, digest_size=16).digest()


def _next(token: bytes, written: bytes) -> bytes:
    """The token after a batch."""
    return blake2b(token + written, digest_size=16).digest()


def first_token(identity: Identity) -> bytes:
    """The token of a host that has been fed nothing."""
    return blake2b(identity.digest.encode(), digest_size=16).digest()


def first_head(identity: Identity) -> Head:
    """The head of a host that has been fed nothing."""
    return Head(identity.facts, first_token(identity), 1.0)


def read_head(identity: Identity, data: bytes) -> Head:
    """The head as it was stored; refused if another job or another version stored it."""
    head = read_stored(data, Head, FORMAT, "the state of a slot", _INSTEAD)
    check_identity(identity, head.identity, "the checkpoint", _INSTEAD)
    return head
