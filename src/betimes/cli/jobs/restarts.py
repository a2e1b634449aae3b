"""The checkpoint of a local run: one file, written anew as a whole, that belongs to one job.

It holds the engine's state, how far the source was read, which batch comes next, and the counts. It
replaces its predecessor in one moment, after the changes of the batches before it were written. So
a run that is killed at any point leaves a checkpoint that is older than the sink or as new, never
newer; the restart goes back to the checkpoint, removes later batches from the sink and makes them
again.
"""

from __future__ import annotations

import fcntl
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec

from betimes.cli.jobs.files import Position
from betimes.cli.jobs.jobfile import JobFile
from betimes.cli.jobs.sinks import put
from betimes.cli.jobs.tally import Tally
from betimes.engine import CheckpointError, Hierarchy
from betimes.model import StreamEndedError
from betimes.model.errors import BusyError

FORMAT = 1
_FREE = ("attenuation", "retraction", "snapshots", "errors", "calibration")
"""Options that may differ between a run and its restart: no state depends on them.

A calibration is for the beginning; what a checkpoint has learned since goes before it.
"""


class Saved(msgspec.Struct):
    """Everything that a run needs to go on."""

    identity: dict[str, str]
    engine: bytes | None = None
    position: Position = Position()
    batch: int = 0
    """The number of the next batch."""
    ended: bool = False
    last_seq: int = 0
    rejected: int = 0
    """Rows so far that were no events."""
    tally: Tally = msgspec.field(default_factory=Tally)
    format: int = FORMAT


def identity_of(job: JobFile, hierarchy: Hierarchy) -> dict[str, str]:
    """What the state of a run rests on; a state with another identity is refused."""
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
    """A job may move together with its folders."""
    if path is None:
        return ""
    there, here = Path(path), folder.absolute()
    return str(there.relative_to(here)) if there.is_relative_to(here) else path


class Checkpoint:
    """The folder of a checkpoint, held by one run at a time. Without a folder nothing is kept."""

    def __init__(self, folder: str | None, identity: dict[str, str]) -> None:
        self._folder = None if folder is None else Path(folder)
        self._identity = identity
        self._lock: IO[bytes] | None = None

    @property
    def kept(self) -> bool:
        return self._folder is not None

    def load(self) -> Saved | None:
        """What an earlier run has left; refused if it was of another job or has ended."""
        if self._folder is None or not self._file.exists():
            return None
        saved = _decoded(self._file)
        if saved.identity != self._identity:
            names = {**saved.identity, **self._identity}
            lines = [
                f"  {name}: {_short(saved.identity.get(name))} there, "
                f"{_short(self._identity.get(name))} here"
                for name in names
                if saved.identity.get(name) != self._identity.get(name)
            ]
            raise CheckpointError(
                f"the checkpoint {self._folder} was written by a job with other settings:\n"
                + "\n".join(lines)
                + "\nuse those settings, give the job another checkpoint, or begin anew with "
                "--fresh"
            )
        if saved.ended:
            raise StreamEndedError(
                f"the stream of {self._folder} has ended: its results are final; begin anew with "
                "--fresh, or give a new stream a checkpoint and a sink of its own"
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
                f"expected a checkpoint of kind = \"local\" in {self._folder}, but a run on Spark "
                "has its own there; give the job another checkpoint"
            )  # fmt: skip
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise BusyError(
                f"another run is at work on the checkpoint {self._folder}; wait for it, stop it, "
                "or give this job another checkpoint"
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
            f"{file} is damaged or no checkpoint: {error}; begin anew with --fresh"
        ) from None
    if saved.format != FORMAT:
        raise CheckpointError(
            f"expected a checkpoint of format {FORMAT} in {file}, got format {saved.format}: "
            "another version of betimes wrote it; end the stream with that, or use --fresh"
        )
    return saved


def _short(text: str | None) -> str:
    """A value that may be long, such as a hierarchy, as a word about it."""
    if text is None:
        return "nothing"
    if "\n" not in text:
        return text
    return f"{text.splitlines()[0]} ... ({blake2b(text.encode(), digest_size=3).hexdigest()})"
