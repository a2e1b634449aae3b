"""`betimes run`: a job file, run to its end or until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from betimes.cli.jobs.conflicts import read_job
from betimes.cli.jobs.description import describe, shown
from betimes.cli.jobs.hierarchies import hierarchy_of
from betimes.cli.jobs.jobfile import JobFile
from betimes.cli.jobs.local import LocalRun, Outcome, forget
from betimes.cli.jobs.on_spark import SparkRun, forget_query
from betimes.cli.jobs.progress import Progress
from betimes.cli.jobs.restarts import Checkpoint, identity_of
from betimes.cli.jobs.sinks import sink_of
from betimes.cli.jobs.sources import check_source, source_of
from betimes.cli.jobs.stopping import Stop, hearing_signals
from betimes.cli.speaking import say
from betimes.engine import Hierarchy
from betimes.model import OptionError


def run(
    job_file: Annotated[
        Path,
        typer.Argument(
            metavar="JOB.toml", help="The job file. Paths in it are relative to its own folder."
        ),
    ],
    *,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the job, its files and columns, print what would run, and end."
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep running and take new files as they come, instead of ending when all that "
            "is there is read.",
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Begin anew: first remove the job's checkpoint and the batches in its sink.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no summary, only errors.")
    ] = False,
) -> None:
    """Detect complex events as a job file says: source, patterns, engine, sink.

    A job file has four tables. This one needs no data; it simulates sensors:

    [cyan]
    \\[source]                    # or parquet, csv, json, kafka, socket
    format = "simulate"
    by = "key"

    \\[detect]
    clock = "ball"               # the type of event that tells the time
    \\[\\[detect.pattern]]
    match = "near !not_near hit"
    by = "key"
    within = "500ms"
    emits = "touch"

    \\[engine]
    kind = "local"               # or spark, the default
    checkpoint = "checkpoint/"   # a run that was stopped goes on

    \\[sink]                      # parquet, csv, json, console; delta, kafka
    format = "console"
    [/]

    The changes that come out are marked insert (found), confirm (it stands for
    good) and delete (taken back). Ctrl-C and SIGTERM stop a run after the batch
    at work, with exit code 130 and 143; the same command goes on where it was.
    Exit code 2 says that the job or its data is bad, 1 that something failed.
    All keys are explained in docs/running.md.

    [bold]Examples[/]

    [green]betimes run --check job.toml[/]

    [green]betimes run job.toml[/]

    [green]betimes run --follow --quiet job.toml[/]
    """
    job = read_job(job_file)
    hierarchy = hierarchy_of(job)
    check_source(job, hierarchy)
    if check:
        typer.echo(describe(job, hierarchy))
        return
    if follow and job.source.format == "simulate":
        raise OptionError("--follow waits for new input, but a simulated stream has an end")
    progress = Progress(quiet=quiet, live=job.sink.format != "console")
    with hearing_signals() as stop:
        start = _run_locally if job.engine.kind == "local" else _run_on_spark
        outcome = start(job, hierarchy, progress, stop, follow=follow, fresh=fresh)
    if outcome is Outcome.stopped:
        _say_how_to_go_on(job, follow=follow)
        raise typer.Exit(stop.exit_code)


def _run_locally(
    job: JobFile, hierarchy: Hierarchy, progress: Progress, stop: Stop, *, follow: bool, fresh: bool
) -> Outcome:
    sink, source = sink_of(job, Console(highlight=False)), source_of(job)
    with Checkpoint(job.engine.checkpoint, identity_of(job, hierarchy)) as checkpoint:
        if fresh:
            forget(job, checkpoint)
        running = LocalRun(
            job, hierarchy, source, sink, checkpoint, progress=progress, stop=stop
        )  # fmt: skip
        outcome = running.run(follow=follow)
    progress.summary(running.reading(), _output(job), outcome=outcome.value)
    return outcome


def _run_on_spark(
    job: JobFile, hierarchy: Hierarchy, progress: Progress, stop: Stop, *, follow: bool, fresh: bool
) -> Outcome:
    if fresh:
        forget_query(job)
    running = SparkRun(job, hierarchy, progress=progress, console=Console(highlight=False))
    outcome = running.run(stop, follow=follow)
    progress.summary(running.reading(), _output(job), outcome=outcome.value)
    return outcome


def _output(job: JobFile) -> str:
    sink = job.sink
    if sink.format == "kafka":
        return f"the Kafka topic {sink.topic}"
    return "above" if sink.path is None else shown(sink.path)


def _say_how_to_go_on(job: JobFile, *, follow: bool) -> None:
    if job.engine.checkpoint is None:
        say("the job keeps no checkpoint: the next run begins anew; see checkpoint in [engine]")
    else:
        say(f"go on with: betimes run {'--follow ' if follow else ''}{job.file}")
