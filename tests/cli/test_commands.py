"""Every command that the documents give is run as it is written there.

Two things are not literal: the address of the cluster, and how long a simulated match is.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes import fold
from betimes.testing import oracle
from tests.cli.jobs import changes, events, make, run, stream, touches, write_events, written
from tests.cli.test_documents import DOCUMENTS, ROOT
from tests.spark.cluster import Cluster, cluster

HOST = "spark://host:7077"
SHORT = ["--seconds", "1"]


def commands() -> list[str]:
    """The commands in shell blocks and in the text, except those without arguments."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for kind, block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
            if kind not in ("python", "toml"):
                found += re.findall(r"^(?:\$ )?betimes [a-z]+ .*", block, re.MULTILINE)
        plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        found += re.findall(r"`(betimes [^`]+)`", plain)
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in found]
    complete = [w for w in words if _has_arguments(w)]
    return list(dict.fromkeys(shlex.join(w) for w in complete))


def _has_arguments(words: list[str]) -> bool:
    """Whether it is a whole command, not the name of one, or of one with an option."""
    given = [word for word in words[2:] if not word.startswith("-") and word != "JOB.toml"]
    return bool(given) and words[1:] != ["simulate", "soccer"]


HERE = [command for command in commands() if HOST not in command]
THERE = [command for command in commands() if HOST in command]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as after reading the documents: the examples, and files that they speak of."""
    place = tmp_path_factory.mktemp("documents")
    shutil.copytree(ROOT / "examples", place / "examples")
    shutil.copytree(ROOT / "docs", place / "docs")
    write_events(place / "events")
    readme = (ROOT / "README.md").read_text("utf-8")
    (job,) = re.findall(r"```toml\n(\[source\].*?)```", readme, re.DOTALL)
    (place / "job.toml").write_text(job)
    with gzip.open(place / "full-game.gz", "wt") as recording:
        recording.writelines(recorded())
    betimes(place, "simulate", "soccer", "match/", *SHORT)
    betimes(place, "calibrate", "examples/job/touches.toml")
    (place / "examples/job/calibration.toml").rename(place / "old.toml")
    return place


def recorded() -> Iterator[str]:
    """A moment of the public recording: a ball and a leg, in its format."""
    for n in range(200):
        at = 10753295594424116 + n * 5 * 10**8
        for sensor in (4, 13):
            yield f"{sensor},{at},26000,{n},100,1000,0,0,10000,0,0,0,0\n"


def betimes(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "betimes", *arguments]
    environment = os.environ | {"COLUMNS": "100"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (shlex.join(arguments), done.stderr[-2_000:])
    return done


def test_there_are_commands_of_every_kind() -> None:
    kinds = {command.split()[1] for command in HERE}
    assert kinds == {"run", "trace", "simulate", "calibrate"}
    assert {command.split()[1] for command in THERE} == {"submit"}


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_documents_runs(command: str, folder: Path) -> None:
    _, *arguments = shlex.split(command)
    # Each document is read on its own: what another one has made is not there yet.
    (folder / "examples/job/calibration.toml").unlink(missing_ok=True)
    if arguments[0] == "simulate" and "--recording" not in arguments:
        shutil.rmtree(folder / "match", ignore_errors=True)
        kept = arguments.index("--seconds") if "--seconds" in arguments else len(arguments)
        arguments = [*arguments[:kept], *SHORT, *arguments[kept + 2 :]]
    betimes(folder, *arguments)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=1, cores=2) as running:
        yield running


@pytest.mark.parametrize("command", THERE)
def test_a_command_for_a_cluster_runs_on_one(command: str, here: Cluster, tmp_path: Path) -> None:
    """With the job of the tests, whose result is known, under the name that the document uses."""
    make(tmp_path, ('kind = "local"', "slots = 2\nconfig = { 'spark.executor.memory' = '512m' }"))
    _, *arguments = shlex.split(command.replace(HOST, here.address))
    done = betimes(tmp_path, *arguments)
    assert "6,000 in" in done.stdout
    rows = written(tmp_path / "out")
    assert fold(changes(rows)) == oracle(touches(), events(stream()), by="key")


def test_jobs_that_cannot_be_submitted(tmp_path: Path) -> None:
    def refused(*replaced: tuple[str, str]) -> str:
        file = make(tmp_path, *replaced)
        command = [sys.executable, "-m", "betimes", "submit", "--master", HOST, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert 'this one has kind = "local"' in refused()
    assert "leave one of them out" in refused(('kind = "local"', 'master = "local[2]"'))
    assert "unknown key" in refused(("batch_rows", "batch_row"))
    assert run("--check", tmp_path / "job.toml").exit_code == 2
