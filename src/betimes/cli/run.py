"""`betimes run`: run a job file until its end or a stop."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from betimes.cli.jobs.description import describe
from betimes.cli.jobs.io.sinks import sink_of
from betimes.cli.jobs.io.sources import compare, source_of
from betimes.cli.jobs.jobfile.conflicts import look_over
from betimes.cli.jobs.jobfile.hierarchies import assembled
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.jobs.running.local import LocalJob, Outcome
from betimes.cli.jobs.running.on_spark import SparkJob, forget_query
from betimes.cli.jobs.running.progress import Progress
from betimes.cli.jobs.running.restarts import Checkpoint, identity_of, setup_of
from betimes.cli.jobs.running.stopping import Stop, hearing_signals
from betimes.cli.speaking import say, shown
from betimes.engine import Hierarchy
from betimes.host import Host
from betimes.model import OptionError


def run(
    job_file: Annotated[
        Path,
        typer.Argument(
            metavar="JOB.toml", help="The job file. Paths in it are relative to its folder."
        ),
    ],
    *,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the job, its files and columns, print what would run, and exit."
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep running and read new input as it comes, instead of ending when all input is "
            "read.",
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Start over: first remove the checkpoint of the job and the batches in its sink.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only errors: no progress, no summary.")
    ] = False,
) -> None:
    """Run a job file: detect complex events in a source and write them to a sink.

    A job file has four tables. This one needs no data: it simulates sensors.

    [cyan]
    \\[source]                     # or parquet, csv, json, kafka, socket
    format = "simulate"
    by = "key"

    \\[detect]
    clock = "ball"               # events of this type tell the time
    \\[\\[detect.pattern]]
    match = "near !not_near hit"
    by = "key"
    within = "500ms"
    emits = "touch"

    \\[engine]
    kind = "local"               # or "spark", the default
    checkpoint = "checkpoint/"   # a stopped run resumes

    \\[sink]                       # parquet, csv, json, console; delta, kafka
    format = "console"
    [/]

    Save it as job.toml, check it, and run it. The output is a list of changes:
    insert (found), confirm (now final) and delete (taken back).

    Ctrl-C and SIGTERM stop a run after the current batch (exit code 130, 143).
    If the job has a checkpoint, the same command resumes where the run stopped.
    Exit code 2 means that the job or its data is bad, 1 that something failed.
    docs/running.md explains all keys.

    [bold]Examples[/]

    [green]betimes run --check job.toml[/]

    [green]betimes run job.toml[/]

    [green]betimes run --follow --quiet job.toml[/]
    """
    job = look_over(job_file)
    hierarchy = assembled(job)
    compare(job, hierarchy)
    job.problems.stop_if_any()
    if job.engine.kind == "spark" and find_spec("pyspark") is None:
        raise OptionError(
            "the job runs on Spark, but pyspark is not installed; install it with: pip install "
            "'betimes[spark]', or set kind = \"local\" in [engine]"
        )
    if check:
        typer.echo(describe(job, hierarchy))
        return
    if follow and job.source.format == "simulate":
        raise OptionError(
            "--follow waits for new input, but a simulated stream has an end; leave --follow out"
        )
    progress = Progress(quiet=quiet, live=job.sink.format != "console")
    with hearing_signals() as stop:
        start = _run_locally if job.engine.kind == "local" else _run_on_spark
        outcome = start(job, hierarchy, progress, stop, follow=follow, fresh=fresh)
    if outcome is Outcome.stopped:
        _say_how_to_resume(job, follow=follow)
        raise typer.Exit(stop.exit_code)


def _run_locally(
    job: JobFile, hierarchy: Hierarchy, progress: Progress, stop: Stop, *, follow: bool, fresh: bool
) -> Outcome:
    sink, source = sink_of(job, Console(highlight=False)), source_of(job)
    with Checkpoint(job.engine.checkpoint, identity_of(job, hierarchy)) as checkpoint, sink:
        if fresh:
            checkpoint.forget()
            sink.forget()
        running = LocalJob(
            job, Host(setup_of(job, hierarchy)), source, sink, checkpoint, progress=progress,
            stop=stop,
        )  # fmt: skip
        outcome = running.run(follow=follow)
    progress.summary(running.reading(), _output(job), outcome=outcome.value)
    return outcome


def _run_on_spark(
    job: JobFile, hierarchy: Hierarchy, progress: Progress, stop: Stop, *, follow: bool, fresh: bool
) -> Outcome:
    if fresh:
        forget_query(job)
    running = SparkJob(job, hierarchy, progress=progress, console=Console(highlight=False))
    outcome = running.run(stop, follow=follow)
    progress.summary(running.reading(), _output(job), outcome=outcome.value)
    return outcome


def _output(job: JobFile) -> str:
    sink = job.sink
    if sink.format == "kafka":
        return f"the Kafka topic {sink.topic}"
    return "above" if sink.path is None else shown(sink.path)


def _say_how_to_resume(job: JobFile, *, follow: bool) -> None:
    if job.engine.checkpoint is None:
        say("the job has no checkpoint, so the next run starts over; set checkpoint in [engine]")
    else:
        say(f"resume with: betimes run {'--follow ' if follow else ''}{job.file}")
