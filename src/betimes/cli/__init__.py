"""The command line: `betimes demo | trace | run | submit | calibrate | simulate`."""

from __future__ import annotations

from typing import Annotated

import typer

import betimes
from betimes.cli.calibrate.command import calibrate as calibrate_command
from betimes.cli.demo.command import demo as demo_command
from betimes.cli.run import run as run_command
from betimes.cli.simulate.command import simulate as simulate_commands
from betimes.cli.speaking import Commands, hear_warnings
from betimes.cli.submit.command import submit as submit_command
from betimes.cli.trace.command import trace as trace_command

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
# Imported under other names, so that the functions do not hide the packages of the commands.
app.command("demo")(demo_command)
app.command("trace")(trace_command)
app.command("run")(run_command)
app.command("submit")(submit_command)
app.add_typer(simulate_commands, name="simulate")
app.command("calibrate")(calibrate_command)


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
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Find complex events in streams that arrive out of order: early, and right in the end."""
    del version  # its callback has dealt with it
    hear_warnings()


def main() -> None:
    """Run the command line."""
    app(prog_name="betimes")
