"""The checkpoint of a local job: one file that is replaced as a whole and belongs to one job.

It holds the state of the engine, how far the source was read, the number of the next batch, and the
totals. A new checkpoint replaces the old one atomically, after the changes of all batches before it
were written. So a run that is killed at any point leaves a checkpoint that is as old as the sink or
older, never newer. A restart goes back to the checkpoint, removes later batches from the sink and
runs them again.
"""

from __future__ import annotations

import fcntl
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec

from betimes.cli.jobs.io.files import Position
from betimes.cli.jobs.io.sinks import put
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.jobs.running.totals import Totals
from betimes.engine import CheckpointError, Hierarchy
from betimes.model import StreamEndedError
from betimes.model.errors import BusyError

FORMAT = 1
_FREE = ("attenuation", "retraction", "snapshots", "errors", "calibration")
"""Options that may change between a run and its restart, because no state depends on them.

A calibration only sets the start; what the engine has learned since takes precedence over it.
"""


class Saved(msgspec.Struct):
    """Everything that a run needs to resume."""

    identity: dict[str, str]
    engine: bytes | None = None
    position: Position = Position()
    batch: int = 0
    """The number of the next batch."""
    ended: bool = False
    last_seq: int = 0
    rejected: int = 0
    """How many rows so far were not valid events."""
    totals: Totals = msgspec.field(name="tally", default_factory=Totals)
    format: int = FORMAT


def identity_of(job: JobFile, hierarchy: Hierarchy) -> dict[str, str]:
    """The settings that the state of a job depends on; a state with other settings is refused."""
    source = job.source
    texts = [node.pattern.explain() for node in hierarchy if node.pattern is not None]
    simulated = [source.rows, source.seed, source.keys, source.stragglers]
    return {
        "hierarchy": "\n".join([f"clock {hierarchy.clock}", hierarchy.explain(), *texts]),
        "[source] format": source.format,
        "[source] path": _relative(source.path, job.folder),
        "[source] rows, seed, keys, stragglers": repr(simulated),
        "[source] time, type, arrival": repr((source.time, source.type, source.arrival)),
        "[source] by": repr(source.by),
        "[detect] order": job.detect.order,
        **{
            f"[detect] {name}": repr(value)
            for name, value in sorted(job.detect.options.items())
            if name not in _FREE
        },
        "[sink] format": job.sink.format,
        "[sink] path": _relative(job.sink.path, job.folder),
        "[sink] results": job.sink.results,
    }


def _relative(path: str | None, folder: Path) -> str:
    """The path relative to the job file, so that a job can move together with its folders."""
    if path is None:
        return ""
    there, here = Path(path), folder.absolute()
    return str(there.relative_to(here)) if there.is_relative_to(here) else path


class Checkpoint:
    """The folder of a checkpoint, locked by one run at a time. Without a folder nothing is kept."""

    def __init__(self, folder: str | None, identity: dict[str, str]) -> None:
        self._folder = None if folder is None else Path(folder)
        self._identity = identity
        self._lock: IO[bytes] | None = None

    @property
    def kept(self) -> bool:
        return self._folder is not None

    def load(self) -> Saved | None:
        """What an earlier run left; refused if it is of another job or its stream has ended."""
        if self._folder is None or not self._file.exists():
            return None
        saved = _decoded(self._file)
        if saved.identity != self._identity:
            names = {**saved.identity, **self._identity}
            lines = [
                f"  {name}: was {_short(saved.identity.get(name))}, "
                f"is {_short(self._identity.get(name))}"
                for name in names
                if saved.identity.get(name) != self._identity.get(name)
            ]
            raise CheckpointError(
                f"the checkpoint {self._folder} belongs to a job with other settings:\n"
                + "\n".join(lines)
                + "\nrestore those settings, give the job another checkpoint, or start over with "
                "--fresh"
            )
        if saved.ended:
            raise StreamEndedError(
                f"the stream of the checkpoint {self._folder} has ended, and its results are "
                "final; start over with --fresh, or give a new stream its own checkpoint and sink"
            )
        return saved

    def save(self, saved: Saved) -> None:
        if self._folder is not None:
            put(self._file, msgspec.msgpack.encode(saved))

    def forget(self) -> None:
        if self._folder is not None:
            self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return Path(str(self._folder)) / "local-run"

    def __enter__(self) -> Checkpoint:
        if self._folder is None:
            return self
        if (self._folder / "query").exists():
            raise CheckpointError(
                f'the checkpoint {self._folder} belongs to a job with kind = "spark"; give this '
                "job another checkpoint"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise BusyError(
                f"another run is using the checkpoint {self._folder}; wait for it, stop it, or "
                "give this job another checkpoint"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()


def _decoded(file: Path) -> Saved:
    try:
        saved = msgspec.msgpack.decode(file.read_bytes(), type=Saved)
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"{file} is damaged or not a checkpoint: {error}; start over with --fresh"
        ) from None
    if saved.format != FORMAT:
        raise CheckpointError(
            f"expected a checkpoint of format {FORMAT} in {file}, got format={saved.format}, from "
            "another version of betimes; finish the stream with that version, or start over with "
            "--fresh"
        )
    return saved


def _short(text: str | None) -> str:
    """A value on one line; of a long one, such as a hierarchy, the first line and a hash."""
    if text is None:
        return "not set"
    if "\n" not in text:
        return text
    return f"{text.splitlines()[0]} ... ({blake2b(text.encode(), digest_size=3).hexdigest()})"
