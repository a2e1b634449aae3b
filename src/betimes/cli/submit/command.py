"""`betimes submit`: run a job file on a cluster, through spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from betimes.cli.jobs.io.sources import check_source
from betimes.cli.jobs.jobfile.conflicts import read_job
from betimes.cli.jobs.jobfile.hierarchies import hierarchy_of
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.model import OptionError

SCRIPT = Path(__file__).with_name("script.py")
LOG_LEVEL = "WARN"
"""What Spark says by default fills screens; `--conf spark.log.level=INFO` brings it back."""


def submit(
    job_file: Annotated[
        Path,
        typer.Argument(
            metavar="JOB.toml", help="The job file. Paths in it are relative to its folder."
        ),
    ],
    *,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The cluster, such as spark://host:7077. Without it, the master of the job file, "
            "or of Spark's own configuration.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given several times."),
    ] = None,
    packages: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Packages for Spark, such as that for Kafka."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep running and read new input as it comes.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: remove the checkpoint and the sink first.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
) -> None:
    """Run a job file on a Spark cluster.

    The job is checked here. Then spark-submit runs [cyan]betimes run[/], with
    this machine as the driver; it is taken from SPARK_HOME, or from PySpark if
    that is not set. betimes must be installed on the workers, and they must be
    able to reach the paths of the job. Exit codes and restarts are those of
    [cyan]betimes run[/]. Spark's messages go to stderr, what betimes prints to
    stdout.

    [bold]Examples[/]

    [green]betimes submit --master spark://host:7077 job.toml[/]

    [green]betimes submit --master spark://host:7077 --conf spark.executor.memory=4g job.toml[/]
    """
    job = read_job(job_file)
    check_source(job, hierarchy_of(job))
    _check(job, master)
    settings = [f"spark.log.level={LOG_LEVEL}", *(conf or [])]  # the last one counts
    options = [("--master", master), ("--packages", packages), *(("--conf", c) for c in settings)]
    flags = {"--follow": follow, "--fresh": fresh, "--quiet": quiet}
    arguments = [name for name, wanted in flags.items() if wanted]
    command = [
        str(spark_submit()),
        *(word for name, value in options if value is not None for word in (name, value)),
        *(str(SCRIPT), "run", *arguments, str(job_file)),
    ]
    _become(command)


def _check(job: JobFile, master: str | None) -> None:
    if job.engine.kind != "spark":
        raise OptionError(
            'a cluster runs jobs with kind = "spark" in [engine], this one has '
            f'kind = "{job.engine.kind}"; change it, or use betimes run'
        )
    if master is not None and job.engine.master not in (None, master):
        raise OptionError(
            f'the job file has master = "{job.engine.master}", which would take precedence over '
            f"--master {master}; leave one of them out"
        )


def spark_submit() -> Path:
    """The program spark-submit: that of SPARK_HOME, or else the one that comes with PySpark."""
    home = os.environ.get("SPARK_HOME")
    spec = None if home else find_spec("pyspark")
    if home is None and (spec is None or not spec.submodule_search_locations):
        raise OptionError(
            "spark-submit was not found; set SPARK_HOME, or install it with: pip install "
            "'betimes[spark]'"
        )
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    program = Path(home or places[0], "bin", "spark-submit")
    if not program.exists():
        raise OptionError(f"expected spark-submit at {program} (SPARK_HOME), found nothing")
    return program


def _become(command: Sequence[str]) -> None:
    """Replace this process, so that signals and exit codes need no one to pass them on."""
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {"PYSPARK_DRIVER_PYTHON": sys.executable} | os.environ
    os.execve(command[0], list(command), environment)
