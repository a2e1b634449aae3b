"""How the command line speaks: results on stdout; errors, warnings and progress on stderr.

Exit code 2 means that the input or an option was bad, 1 that something failed.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from betimes.model import BetimesError, EventError, OptionError

BAD_INPUT, FAILURE = 2, 1
_NOTICEABLE = 0.4
"""Seconds after which people start to wonder what is happening."""


def say(message: str) -> None:
    """Print a message that is not a result."""
    typer.echo(f"betimes: {message}", err=True)


class Commands(TyperGroup):
    """The commands; errors become a message and an exit code."""

    # Any: the class of the context moves between releases of typer.
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BetimesError as error:
            bad_input = isinstance(error, EventError | OptionError)
            say(str(error))
            if bad_input:
                typer.echo(f"For help: betimes {ctx.invoked_subcommand} --help", err=True)
            raise typer.Exit(BAD_INPUT if bad_input else FAILURE) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has closed the pipe
                raise
            say(str(error))
            raise typer.Exit(FAILURE) from None


class _Heard(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def hear_warnings() -> None:
    """Print the warnings that the library logs."""
    log = logging.getLogger("betimes")
    if not any(isinstance(handler, _Heard) for handler in log.handlers):
        log.addHandler(_Heard(logging.WARNING))


@contextmanager
def patience(doing: str, *, after: float = _NOTICEABLE) -> Iterator[None]:
    """Show on a terminal what is going on, if it takes longer than a moment."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    status = console.status(doing)
    timer = Timer(after, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


COMPILING = "compiling the ordering loop (once per installation, about ten seconds)"


def shown(path: str | Path | None) -> str:
    """A path as people write it: without "..", and relative to the working folder if it is inside.

    >>> shown(Path.cwd() / "examples/job/../../changes"), shown("s3a://bucket/../changes")
    ('changes', 's3a://bucket/../changes')
    """
    if path is None or "://" in str(path):
        return str(path)
    there, here = Path(path), Path.cwd()
    if ".." in there.parts:
        there = there.resolve()
    return str(there.relative_to(here) if there.is_relative_to(here) else there)
