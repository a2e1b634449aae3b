"""A checkpoint location belongs to one job, and to one run at a time.

The location has a folder `query`, which is Spark's, and a file `betimes.json` with the identity of
the job. A run locks the location. Storage that this machine has no path to has neither the lock nor
the file; there, Spark notices two runs when they try to commit the same batch, and the identity is
checked when the state is first read.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from betimes.engine import CheckpointError
from betimes.host.folder import CheckpointFolder
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
        seal, _, note = stored.partition(b"\n")
        if seal != _seal(note):
            raise CheckpointError(
                f"{what} is damaged, or another version of betimes wrote it (see {OWNER}); "
                f"{_INSTEAD}"
            )
        try:
            owner = msgspec.json.decode(note, type=Owner)
        except msgspec.DecodeError as error:
            raise CheckpointError(f"{what} is damaged: {error} in {OWNER}; {_INSTEAD}") from None
        check_format(owner.format, FORMAT, what, _INSTEAD)
        check_identity(self._job.identity, owner.identity, what, _INSTEAD)
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
            owner = Owner(self._job.identity.facts, ended, FORMAT)
            note = msgspec.json.encode(owner)
            self._folder.write(OWNER, _seal(note) + b"\n" + note)

    def release(self) -> None:
        if self._folder is not None:
            self._folder.release()

    def __enter__(self) -> CheckpointGuard:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _seal(note: bytes) -> bytes:
    """A checksum that people can read, like the rest of the file."""
    return blake2b(note, digest_size=16).hexdigest().encode()
