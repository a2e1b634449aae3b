"""The command line: `betimes demo`, `betimes trace`, `betimes run`, `betimes calibrate`."""

from __future__ import annotations

from typing import Annotated

import typer

import betimes
from betimes.cli.calibrate import calibrate
from betimes.cli.demo import demo
from betimes.cli.run import run
from betimes.cli.simulate import simulate
from betimes.cli.speaking import Commands, hear_warnings
from betimes.cli.trace import trace

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="First steps: [bold]betimes demo[/], then [bold]betimes trace --help[/] and "
    "[bold]betimes run --help[/].",
)
app.command()(demo)
app.command()(trace)
app.command()(run)
app.add_typer(simulate, name="simulate")
app.command()(calibrate)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"betimes {betimes.__version__}")
        raise typer.Exit


@app.callback()
def _betimes(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Puts events that arrive out of order into order, waiting no longer than the stream needs."""
    del version  # its callback has dealt with it
    hear_warnings()


def main() -> None:
    """Run the command line."""
    app(prog_name="betimes")
