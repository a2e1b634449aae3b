"""The folder in which the workers of an executor meet."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from betimes.spark.slots.relay import _folder


def test_folders_of_executors_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    past = subprocess.Popen([sys.executable, "-c", ""])
    past.wait()
    begin = f"betimes-{os.getuid()}"
    stale, alive = tmp_path / f"{begin}-{past.pid}", tmp_path / f"{begin}-{os.getpid()}"
    others = [tmp_path / "betimes-demo-1", tmp_path / f"{begin}-notes"]
    for folder in (stale, alive, *others):
        folder.mkdir()
    (stale / "socket").touch()
    assert _folder() == tmp_path / f"{begin}-{os.getppid()}"
    assert not stale.exists()
    assert all(folder.exists() for folder in (_folder(), alive, *others))


def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"betimes-{os.getuid()}-{os.getppid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="another user"):
        _folder()
