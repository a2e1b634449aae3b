"""The checkpoint of a local job: a file that is replaced as a whole, and volumes of history.

The file belongs to one job. It holds the state of the engine, how far the source was read, the
number of the next batch, and the totals; volumes hold history that no longer changes. A new
checkpoint replaces the old one atomically, after the changes of all batches before it were written.
So a run that is killed at any point leaves a checkpoint that is as old as the sink or older, never
newer. A restart goes back to the checkpoint, removes later batches from the sink and runs them
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import msgspec

from betimes.cli.jobs.io.files import Position
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.jobs.running.totals import Totals
from betimes.engine import CheckpointError, Hierarchy
from betimes.host import Host, HostState, Setup
from betimes.host.folder import CheckpointFolder
from betimes.model import StreamEndedError
from betimes.model.fitting import check_identity, read_stored, stored
from betimes.model.identity import Facts, Identity

FORMAT = 6
FILE = "local-run"
_INSTEAD = "give the job another checkpoint, or start over with --fresh"


class Saved(msgspec.Struct):
    """Everything that a run needs to resume."""

    identity: Mapping[str, Facts]
    owner: str
    """The id of this checkpoint, by which its sink knows it."""
    host: HostState | None = None
    position: Position = Position()
    batch: int = 0
    """The number of the next batch."""
    ended: bool = False
    totals: Totals = msgspec.field(default_factory=Totals)
    format: int = FORMAT


def setup_of(job: JobFile, hierarchy: Hierarchy) -> Setup:
    """What runs the job in this process."""
    return Setup(hierarchy, job.options, job.columns, job.sink.results)


def identity_of(job: JobFile, hierarchy: Hierarchy) -> Identity:
    """The settings that the state of a job depends on; with different ones, it is refused."""
    source, sink = job.source, job.sink
    simulated = {
        name: str(getattr(source, name)) for name in ("rows", "seed", "keys", "stragglers")
    }
    places = {
        "[source]": {
            "format": source.format,
            "path": _relative(source.path, job.folder),
            **(simulated if source.format == "simulate" else {}),
        },
        "[sink]": {"format": sink.format, "path": _relative(sink.path, job.folder)},
    }
    return setup_of(job, hierarchy).identity() | Identity(places)


def _relative(path: str | None, folder: Path) -> str:
    """The path relative to the job file, so that a job can move together with its folders."""
    if path is None:
        return "none"
    there, here = Path(path), folder.absolute()
    return str(there.relative_to(here)) if there.is_relative_to(here) else path


class Checkpoint:
    """The folder of a checkpoint, locked by one run at a time. Without a folder nothing is kept."""

    def __init__(self, folder: str | None, identity: Identity) -> None:
        self._folder = None if folder is None else CheckpointFolder(Path(folder).resolve())
        self._identity = identity

    @property
    def kept(self) -> bool:
        return self._folder is not None

    def new(self) -> Saved:
        """What to save before anything has happened."""
        return Saved(self._identity.facts, uuid4().hex)

    def load(self) -> Saved | None:
        """What an earlier run left; refused if it is of another job or its stream has ended."""
        data = None if self._folder is None else self._folder.read(FILE)
        if self._folder is None or data is None:
            return None
        what = f"the checkpoint at {self._folder.path}"
        saved = read_stored(data, Saved, FORMAT, what, _INSTEAD)
        check_identity(self._identity, saved.identity, what, _INSTEAD)
        if saved.ended:
            raise StreamEndedError(
                f"the stream of {what} has ended, and its results are final; start over with "
                "--fresh, or give a new stream its own checkpoint and sink"
            )
        return saved

    def save(self, saved: Saved, host: Host | None = None) -> None:
        """Store what is known about the run, with the host if it has been fed."""
        if self._folder is None:
            return
        if host is not None:
            saved.host, new = host.save_apart(self._folder.volumes())
            self._folder.write_volumes(new)
        self._folder.write(FILE, stored(saved))
        self._folder.keep_volumes(() if saved.host is None else saved.host.volumes)

    def volume(self, name: bytes) -> bytes | None:
        """A volume of the host; None if it is not there."""
        return None if self._folder is None else self._folder.volume(name)

    def forget(self) -> None:
        if self._folder is not None:
            (self._folder.path / FILE).unlink(missing_ok=True)
            self._folder.keep_volumes(())

    def __enter__(self) -> Checkpoint:
        if self._folder is not None:
            if (self._folder.path / "query").exists():
                raise CheckpointError(
                    f'the checkpoint at {self._folder.path} belongs to a job with kind = "spark"; '
                    "give this job another checkpoint"
                )
            self._folder.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.release()
