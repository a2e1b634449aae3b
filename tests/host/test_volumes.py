"""History that no longer changes is stored once, wherever a host is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.cli.jobs.running.restarts import FILE, Checkpoint
from betimes.engine import CheckpointError
from betimes.host import Host
from betimes.host.folder import CheckpointFolder
from betimes.host.log import Entry, LoggedHost, first_head
from betimes.model.fitting import stored
from tests.host.users import as_bytes, setup, tables, through_host, through_log


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base with every batch, and small volumes."""
    monkeypatch.setattr("betimes.model.volumes.LEAST", 2000)
    monkeypatch.setattr("betimes.host.log.LEAST_LOG", 1)
    monkeypatch.setattr("betimes.host.log.LOG_PER_BASE", 0)


def test_a_log_with_volumes_is_enough_to_resume() -> None:
    given, stream = setup(snapshots=20), tables(2000)
    assert through_log(given, stream) == through_host(given, stream)


def test_a_base_writes_only_volumes_that_are_not_stored() -> None:
    given = setup(snapshots=20)
    host = LoggedHost(given, given.identity(), slot=0, clock=lambda: 0.0)
    head = first_head(given.identity())
    known: set[bytes] = set()
    spared = 0
    for table in tables(2000):
        base = host.feed(head, entry := Entry(head.batches, 1.0, [as_bytes(table)]))
        head = base.head
        assert base.base is not None
        assert known.isdisjoint(base.base.new)
        assert known | base.base.new.keys() >= set(base.base.names)
        spared += len(known.intersection(base.base.names))
        known = set(base.base.names)
        assert stored(entry)
    assert spared > 10


def test_a_base_after_one_that_another_attempt_has_stored_writes_all_its_volumes() -> None:
    given = setup(snapshots=20)
    host = LoggedHost(given, given.identity(), slot=0, clock=lambda: 0.0)
    head = first_head(given.identity())
    for number, table in enumerate(tables(2000)):
        if number % 3 == 2:
            head.base = b"of another attempt"
        fed = host.feed(head, Entry(head.batches, 1.0, [as_bytes(table)]))
        assert fed.base is not None
        if number % 3 == 2:
            assert set(fed.base.new) == set(fed.base.names)
        head = fed.head
    assert fed.base is not None
    assert fed.base.names


def saved_host(checkpoint: Checkpoint, host: Host) -> None:
    saved = checkpoint.load() or checkpoint.new()
    saved.batch += 1
    checkpoint.save(saved, host)


def resumed(checkpoint: Checkpoint, host: Host) -> Host:
    saved = checkpoint.load()
    assert saved is not None
    assert saved.host is not None
    host.restore(saved.host, checkpoint.volume)
    return host


def files(folder: Path) -> dict[str, float]:
    return {file.name: file.stat().st_mtime_ns for file in (folder / "volumes").glob("*")}


def test_a_folder_has_the_volumes_of_its_checkpoint_and_no_others(tmp_path: Path) -> None:
    given, stream = setup(snapshots=20), tables(2000)
    with Checkpoint(str(tmp_path), given.identity()) as checkpoint:
        host, stayed = Host(given), 0
        for table in stream:
            host.feed(table)
            before = files(tmp_path)
            saved_host(checkpoint, host)
            after = files(tmp_path)
            assert all(after.get(name, when) == when for name, when in before.items())
            stayed += len(before.keys() & after.keys())
            (tmp_path / "volumes").mkdir(exist_ok=True)
            (tmp_path / "volumes" / ".half.new").touch()  # what a crash leaves
        assert stayed > 10
        other = resumed(checkpoint, Host(given))
        saved = checkpoint.load()
        assert saved is not None
        assert saved.host is not None
        assert {name.hex() for name in saved.host.volumes} == set(files(tmp_path)) - {".half.new"}
        assert other.finish() == host.finish()
        checkpoint.forget()
        assert not files(tmp_path)


def test_a_crash_between_volumes_and_checkpoint_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, stream = setup(snapshots=20), tables(2000)
    with Checkpoint(str(tmp_path), given.identity()) as checkpoint:
        host = Host(given)
        for table in stream[:5]:
            host.feed(table)
        saved_host(checkpoint, host)
        told = [host.feed(table) for table in stream[5:9]]
        write = CheckpointFolder.write

        def crash(self: CheckpointFolder, name: str, content: bytes) -> None:
            if name == FILE:
                raise OSError("killed")
            write(self, name, content)

        with monkeypatch.context() as patch:
            patch.setattr(CheckpointFolder, "write", crash)
            with pytest.raises(OSError, match="killed"):
                saved_host(checkpoint, host)
        again = resumed(checkpoint, Host(given))
        assert [again.feed(table) for table in stream[5:9]] == told
        saved_host(checkpoint, again)
        assert resumed(checkpoint, Host(given)).finish() == again.finish()


def test_a_missing_volume_is_an_error_that_names_it(tmp_path: Path) -> None:
    given = setup(snapshots=20)
    with Checkpoint(str(tmp_path), given.identity()) as checkpoint:
        host = Host(given)
        for table in tables(2000):
            host.feed(table)
        saved_host(checkpoint, host)
        name = next(iter(files(tmp_path)))
        (tmp_path / "volumes" / name).unlink()
        with pytest.raises(CheckpointError, match=f"volume {name} of the checkpoint is missing"):
            resumed(checkpoint, Host(given))
