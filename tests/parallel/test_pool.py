"""Worker processes: order, death, hanging, errors, the end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from betimes.model.errors import OptionError
from betimes.parallel import Pool, ShippingError, WorkerError
from tests.parallel import handlers


@pytest.fixture(scope="module")
def echo() -> Iterator[Pool]:
    with Pool(handlers.echo, workers=2) as pool:
        yield pool


def works(count: int) -> list[bytes]:
    return [str(n).encode() for n in range(count)]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_replies_come_in_the_order_of_the_work(echo: Pool) -> None:
    assert list(echo.map(works(100))) == works(100)


def test_as_done_gives_every_reply_once(echo: Pool) -> None:
    replies = list(echo.as_done(works(50)))
    assert sorted(reply.data for reply in replies) == sorted(works(50))
    assert len({reply.ticket for reply in replies}) == 50


def test_large_messages_in_both_directions_do_not_block_each_other(echo: Pool) -> None:
    large = [bytes([n]) * 3_000_000 for n in range(12)]
    assert list(echo.map(large, ahead=6)) == large


def test_empty_work_is_work(echo: Pool) -> None:
    assert list(echo.map([b"", b"x", b""])) == [b"", b"x", b""]


def test_receive_without_waiting_returns_at_once(echo: Pool) -> None:
    assert echo.receive(wait=False) == []
    assert echo.receive() == []


def test_work_can_be_addressed_to_a_worker(echo: Pool) -> None:
    for _ in range(5):
        echo.send(b"x", to=1)
    workers = set()
    while any(echo.loads):
        workers |= {reply.worker for reply in echo.receive()}
    assert workers == {1}


def test_the_work_of_a_worker_that_dies_goes_to_another(tmp_path: Path) -> None:
    with Pool(handlers.Dies(tmp_path, times=2), workers=2) as pool:
        mixed = [b"deadly" if n == 7 else str(n).encode() for n in range(20)]
        assert list(pool.map(mixed)) == mixed
        assert pool.replaced == 2


def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    with Pool(handlers.Dies(tmp_path, times=1, hang=True), workers=2, timeout=0.3) as pool:
        assert list(pool.map([b"a", b"deadly", b"b"])) == [b"a", b"deadly", b"b"]
        assert pool.replaced == 1


def test_work_that_kills_every_worker_is_an_error_and_the_pool_lives_on(tmp_path: Path) -> None:
    with Pool(handlers.Dies(tmp_path, times=99), workers=1, name="heavy") as pool:
        with pytest.raises(WorkerError, match="3 worker processes of heavy in a row died"):
            list(pool.map([b"deadly"]))
        assert list(pool.map([b"fine"])) == [b"fine"]


def test_a_worker_killed_from_outside_is_replaced() -> None:
    with Pool(handlers.pid, workers=1) as pool:
        (before,) = pool.map([b""])
        os.kill(int(before), signal.SIGKILL)
        (after,) = pool.map([b""])
        assert before != after
        assert gone(int(before))


def test_a_replacement_learns_what_its_predecessor_knew() -> None:
    told = {0: [b"1", b"2"]}
    with Pool(handlers.Sum(), workers=1, revive=lambda number: told[number]) as pool:
        assert list(pool.map([b"1", b"2"])) == [b"1", b"3"]
        os.kill(pool.pids[0], signal.SIGKILL)
        assert list(pool.map([b"3"])) == [b"6"]


def test_an_error_says_what_happened_and_other_replies_are_kept() -> None:
    with Pool(handlers.fail, workers=1, name="'rules'") as pool:
        for work in (b"good", b"bad", b"better"):
            pool.send(work)
        replies, errors = [], list[str]()
        while any(pool.loads) or not errors:
            try:
                replies += pool.receive()
            except WorkerError as error:
                errors.append(str(error))
        replies += pool.receive()
        assert [reply.data for reply in replies] == [b"good", b"better"]
        assert "'rules' failed in a worker process" in errors[0]
        assert "ValueError: this work is bad" in errors[0]


class Locked:
    def __init__(self) -> None:
        self.door = threading.Lock()

    def __call__(self, work: bytes) -> bytes:
        return work


def test_what_cannot_travel_is_refused_before_anything_starts() -> None:
    with pytest.raises(ShippingError, match=r"'rules' cannot .* attribute 'door' is .*lock"):
        Pool(Locked(), workers=1, name="'rules'")

    def local(work: bytes) -> bytes:
        return work

    with pytest.raises(ShippingError, match=r"local'.*define it at the top level"):
        Pool(local, workers=1)


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"workers": 1.5}, {"workers": 1, "timeout": 0}]
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(reversed(options))):
        Pool(handlers.echo, **options)


def test_closing_ends_all_processes_even_busy_ones() -> None:
    pool = Pool(handlers.nap, workers=2)
    list(pool.map([b"0", b"0"]))
    pids = pool.pids
    pool.send(b"0", to=0)
    pool.close()
    assert all(map(gone, pids))
    with pytest.raises(WorkerError, match="closed"):
        pool.send(b"0")


def test_a_pool_that_nobody_holds_ends() -> None:
    pool = Pool(handlers.echo, workers=1)
    (pid,) = pool.pids
    list(pool.map([b"x"]))
    del pool
    gc.collect()
    assert gone(pid)


SCRIPT = """
from betimes.parallel import Pool
from tests.parallel import handlers

if __name__ == "__main__":
    pool = Pool(handlers.nap, workers=2)
    list(pool.map([b"0"] * 4))
    pool.send(b"60000")
    print(*pool.pids)
"""


def test_an_interpreter_exits_though_a_worker_is_busy(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert all(gone(int(pid)) for pid in done.stdout.split())


DEFINES = """
from betimes.parallel import Pool

def shout(work):
    return work.upper()

if GUARD:
    with Pool(shout, workers=1, name="'shout'") as pool:
        print(*pool.map([b"here"]))
"""


@pytest.mark.parametrize("guard", ["__name__ == '__main__'", "True"])
def test_a_script_that_defines_the_function_needs_a_guard(tmp_path: Path, guard: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(DEFINES.replace("GUARD", guard))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    if guard == "True":
        assert done.returncode == 1
        assert "put what starts the run under `if __name__ == '__main__':`" in done.stderr
    else:
        assert (done.stdout, done.stderr) == ("b'HERE'\n", "")
