"""A checkpoint location belongs to one job, and to one run at a time; so do its sinks.

The location has a folder `query`, which is Spark's, and a file `betimes.json` with the identity of
the job. A run locks the location. Storage that this machine has no path to has neither the lock nor
the file; there, Spark notices two runs when they try to commit the same batch, and the identity is
checked when the state is first read.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from uuid import uuid4

import msgspec

from betimes.engine import CheckpointError
from betimes.host.folder import CheckpointFolder, SinkFolder
from betimes.host.log import FORMAT
from betimes.model import BetimesError, StreamEndedError
from betimes.model.fitting import check_format, check_identity
from betimes.spark.job import Job
from betimes.spark.query.places import is_plain, local_path

OWNER = "betimes.json"
_INSTEAD = "choose another checkpoint="


class Owner(msgspec.Struct):
    """The job that a location belongs to."""

    identity: Any
    """The facts of the job's identity."""
    id: str = ""
    """What sinks know the location by."""
    ended: int | None = None
    """The last batch, if the stream was finished."""
    format: int = 1


class CheckpointGuard:
    """Holds a checkpoint location for one run."""

    def __init__(self, place: str, job: Job) -> None:
        path = local_path(place)
        # A URL of this machine may contain %20 and the like, which Spark would take literally.
        self.place = (place if path is None else str(path)).rstrip("/")
        self.query = f"{self.place}/query"
        self._folder = None if path is None else CheckpointFolder(path)
        self._job = job
        # A location that this machine has no path to is known by its name.
        self._id = self.place if path is None else uuid4().hex
        self._known = path is None
        self._sinks: list[SinkFolder] = []

    def acquire(self) -> None:
        """Take the location, or say why not."""
        if self._folder is not None:
            self._folder.acquire()
            try:
                self._check(self._folder)
            except BetimesError:
                self.release()
                raise
        elif not is_plain(self.place):
            raise CheckpointError(
                "expected letters, digits and . _ - = + , @ ~ in the name of a checkpoint that is "
                f"not on this machine, got {self.place!r}: Spark could not read its state at the "
                f"end of the stream; {_INSTEAD}"
            )

    def hold(self, place: str) -> None:
        """Take the folder of a sink, if it is on this machine, or say why not."""
        path = local_path(place)
        if path is not None:
            sink = SinkFolder(path)
            sink.acquire()
            self._sinks.append(sink)
            sink.claim(self._id, known=self._known)

    def _check(self, folder: CheckpointFolder) -> None:
        stored = folder.read(OWNER)
        if stored is None:
            if any((folder.path / name).exists() for name in ("offsets", "query/offsets")):
                raise CheckpointError(
                    f"{folder.path} is the checkpoint of another streaming query, not of betimes; "
                    f"{_INSTEAD}"
                )
            self._note(ended=None)
            return
        what = f"the checkpoint at {folder.path}"
        owner = _owner(stored, what)
        check_format(owner.format, FORMAT, what, _INSTEAD)
        check_identity(self._job.identity, owner.identity, what, _INSTEAD)
        self._id, self._known = owner.id, (folder.path / "query").exists()
        if owner.ended is not None:
            raise StreamEndedError(
                f"the stream of {folder.path} was finished with batch {owner.ended}: its results "
                "are final; for a new stream, give a new checkpoint="
            )

    def mark_ended(self, batch: int) -> None:
        """Remember that the stream was finished."""
        self._note(ended=batch)

    def _note(self, *, ended: int | None) -> None:
        if self._folder is not None:
            owner = Owner(self._job.identity.facts, self._id, ended, FORMAT)
            note = msgspec.json.encode(owner)
            self._folder.write(OWNER, _seal(note) + b"\n" + note)

    def release(self) -> None:
        for sink in self._sinks:
            sink.release()
        self._sinks.clear()
        if self._folder is not None:
            self._folder.release()

    def __enter__(self) -> CheckpointGuard:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def id_of(place: str) -> str:
    """The id of a checkpoint that is held: a new one at the same place has another."""
    path = local_path(place)
    stored = None if path is None else CheckpointFolder(path).read(OWNER)
    return place.rstrip("/") if stored is None else _owner(stored, f"the checkpoint at {path}").id


def _owner(stored: bytes, what: str) -> Owner:
    seal, _, note = stored.partition(b"\n")
    if seal != _seal(note):
        raise CheckpointError(
            f"{what} is damaged, or another version of betimes wrote it (see {OWNER}); {_INSTEAD}"
        )
    try:
        return msgspec.json.decode(note, type=Owner)
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{what} is damaged: {error} in {OWNER}; {_INSTEAD}") from None


def _seal(note: bytes) -> bytes:
    """A checksum that people can read, like the rest of the file."""
    return blake2b(note, digest_size=16).hexdigest().encode()
