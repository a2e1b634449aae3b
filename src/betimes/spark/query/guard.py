"""A checkpoint location belongs to one job, and to one run at a time.

The location has a folder `query`, which is Spark's, and a file `betimes.json` with the identity of
the job. A run holds a lock on that file, which the system releases when the process ends, however
it ends. Storage that this machine has no path to has no lock; there, Spark notices two runs when
they try to commit the same batch, and the identity is checked when the state is first read.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from betimes.engine import CheckpointError
from betimes.model import BetimesError, StreamEndedError
from betimes.model.errors import BusyError
from betimes.spark.job import Job
from betimes.spark.query.places import is_plain, local_path


class CheckpointGuard:
    """Holds a checkpoint location for one run."""

    def __init__(self, place: str, job: Job) -> None:
        self._folder = local_path(place)
        # A URL of this machine may contain %20 and the like, which Spark would take literally.
        self.place = (place if self._folder is None else str(self._folder)).rstrip("/")
        self.query = f"{self.place}/query"
        self._job = job
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the location, or say why not."""
        folder = self._folder
        if folder is None:
            if not is_plain(self.place):
                raise CheckpointError(
                    "expected letters, digits and . _ - = + , @ ~ in the name of a checkpoint that "
                    f"is not on this machine, got {self.place!r}: Spark could not read its state "
                    "at the end of the stream; choose another checkpoint="
                )
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / "betimes.json").open("a+")
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {folder} cannot be written: {error.strerror or error}; check what "
                "is there and its permissions, or choose another checkpoint="
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            self._file = None
            raise BusyError(
                f"another run is at work on the checkpoint {folder}; wait for it, stop it, or "
                "choose another checkpoint="
            ) from error
        try:
            self._check(folder)
        except BetimesError:
            self.release()
            raise

    def _check(self, folder: Path) -> None:
        known = self._read()
        if known is None:
            if (folder / "offsets").exists() or (folder / "query" / "offsets").exists():
                raise CheckpointError(
                    f"{folder} is the checkpoint of another streaming query, not of betimes; "
                    "choose another checkpoint="
                )
            self._write({"identity": self._job.identity, "ended": None})
            return
        self._job.check_identity(known["identity"], str(folder))
        if known["ended"] is not None:
            raise StreamEndedError(
                f"the stream of {folder} was finished with batch {known['ended']}: its results are "
                "final; for a new stream, give a new checkpoint="
            )

    def mark_ended(self, batch: int) -> None:
        """Remember that the stream was finished."""
        if self._file is not None:
            self._write({"identity": self._job.identity, "ended": batch})

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # On a full disk, closing fails as writing did, which was reported; it closes anyway.
            with suppress(OSError):
                file.close()

    def _read(self) -> dict[str, Any] | None:
        if self._file is None:
            return None
        self._file.seek(0)
        lines = self._file.read().splitlines()
        # The last line counts. One that a crash has cut off never counted.
        for line in reversed(lines):
            try:
                known: dict[str, Any] = json.loads(line)
            except json.JSONDecodeError:
                continue
            return known
        return None

    def _write(self, known: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write("\n" + json.dumps(known) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CheckpointError(
                f"{self.place} cannot be written: {error.strerror or error}; free space, or choose "
                "another checkpoint="
            ) from error

    def __enter__(self) -> CheckpointGuard:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
