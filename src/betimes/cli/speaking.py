"""How the command line speaks: results on stdout; errors, warnings and progress on stderr.

Exit code 2 says that the input or an option was bad, 1 that something failed on the way.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from betimes.model import BetimesError, EventError, OptionError

BAD_INPUT, FAILURE = 2, 1
_NOTICEABLE = 0.4
"""Seconds after which people begin to wonder what is going on."""


def say(message: str) -> None:
    """Tell the user something that is not a result."""
    typer.echo(f"betimes: {message}", err=True)


class Commands(TyperGroup):
    """The commands, with errors turned into a message and an exit code."""

    # Any: the context's class has its home in another place in every other release of typer.
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
            if error.errno == errno.EPIPE:  # whoever read our output has seen enough
                raise
            say(str(error))
            raise typer.Exit(FAILURE) from None


class _Heard(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def hear_warnings() -> None:
    """Show what the library logs."""
    log = logging.getLogger("betimes")
    if not any(isinstance(handler, _Heard) for handler in log.handlers):
        log.addHandler(_Heard(logging.WARNING))


@contextmanager
def patience(doing: str, *, after: float = _NOTICEABLE) -> Iterator[None]:
    """Say on a terminal what is being done, if it takes longer than a moment."""
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


COMPILING = "compiling the ordering loop (once after installation, about ten seconds)"
