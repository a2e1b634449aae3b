"""Every kind of file that a job keeps, with a bit of it changed: refused, whatever is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import betimes.host.log
from betimes.cli.jobs.io.files import Position
from betimes.cli.jobs.running.restarts import FILE, Checkpoint
from betimes.engine import CheckpointError
from betimes.host import Host, Setup
from betimes.host.log import Entry, Fed, Head, LoggedHost, first_head, read_head
from betimes.model.fitting import stored
from betimes.spark.query.guard import OWNER, CheckpointGuard
from tests.host.users import as_bytes, job_of, setup, tables

FLIPS = 300


def flipped(whole: bytes) -> Iterator[bytes]:
    """The same bytes with one bit changed, many times."""
    rng = random.Random(5)
    for _ in range(FLIPS):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


def logged(given: Setup) -> LoggedHost:
    return LoggedHost(given, given.identity(), slot=0, clock=lambda: 0.0)


def fed(given: Setup) -> tuple[Head, list[bytes], Fed]:
    """The head and the log after some batches, and what the last of them gave."""
    log: list[bytes] = []
    host, head = logged(given), first_head(given.identity())
    for table in tables(600):
        entry = Entry(head.batches, head.attenuation, [as_bytes(table)])
        last = host.feed(head, entry)
        head = last.head
        log = [*log, stored(entry)] if last.base is None else [last.base.base]
    return head, log, last


def test_the_checkpoint_of_a_local_job(tmp_path: Path) -> None:
    given = setup()
    host = Host(given)
    host.feed(tables()[0])
    with Checkpoint(str(tmp_path), given.identity()) as checkpoint:
        saved = checkpoint.new()
        saved.position = Position("part", 200)
        checkpoint.save(saved, host)
        assert checkpoint.load() == saved
        whole = (tmp_path / FILE).read_bytes()
        for damaged in flipped(whole):
            (tmp_path / FILE).write_bytes(damaged)
            with pytest.raises(CheckpointError, match="damaged"):
                checkpoint.load()


def test_the_head_of_a_slot() -> None:
    given = setup()
    head, _, _ = fed(given)
    whole = stored(head)
    assert read_head(given.identity(), whole) == head
    for damaged in flipped(whole):
        with pytest.raises(CheckpointError, match="damaged"):
            read_head(given.identity(), damaged)


@pytest.mark.parametrize("limit", [10**9, 1], ids=["batches", "base"])
def test_the_log_of_a_slot(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(betimes.host.log, "LEAST_LOG", limit)
    monkeypatch.setattr(betimes.host.log, "LOG_PER_BASE", 0)
    given = setup()
    head, log, _ = fed(given)
    assert len(log) == (3 if limit > 1 else 1)
    logged(given).rebuild(log, head.token)
    for damaged in flipped(log[-1]):
        with pytest.raises(CheckpointError, match="damaged"):
            logged(given).rebuild([*log[:-1], damaged], head.token)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_batch_that_is_missing_in_the_log(missing: int) -> None:
    given = setup()
    head, log, _ = fed(given)
    del log[missing]
    with pytest.raises(CheckpointError, match=r"is missing in|does not end where its head does"):
        logged(given).rebuild(log, head.token)


def test_a_log_of_another_slot() -> None:
    given, other = setup(), setup(late="side")
    head, _, _ = fed(given)
    with pytest.raises(CheckpointError, match="does not end where its head does"):
        logged(other).rebuild(fed(other)[1], head.token)


def test_whose_checkpoint_it_is_on_spark(tmp_path: Path) -> None:
    job = job_of(setup())
    with CheckpointGuard(str(tmp_path), job):
        pass
    whole = (tmp_path / OWNER).read_bytes()
    for damaged in flipped(whole):
        (tmp_path / OWNER).write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged"):
            CheckpointGuard(str(tmp_path), job).acquire()
    (tmp_path / OWNER).write_bytes(whole)
    with CheckpointGuard(str(tmp_path), job):
        pass
