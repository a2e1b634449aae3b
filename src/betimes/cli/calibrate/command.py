"""The command `betimes calibrate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from betimes.calibration import recalibrate
from betimes.cli.calibrate.recordings import calibrate_on, check_recording, recorded
from betimes.cli.jobs.io.sources import check_source
from betimes.cli.jobs.jobfile.conflicts import read_job
from betimes.cli.jobs.jobfile.hierarchies import hierarchy_of
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.jobs.running.progress import Progress
from betimes.cli.speaking import say, shown
from betimes.configuration.value import RunOutcome, Setting
from betimes.engine import Calibration, CalibrationError, Hierarchy
from betimes.model import Duration, OptionError, microseconds, readable

_DELAY = "[TYPE=]TIME"
_Delays = Mapping[str, Duration] | Duration | None


def calibrate(
    job_file: Annotated[
        Path,
        typer.Argument(metavar="JOB.toml", help="A job file, as for [bold]betimes run[/]."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where to write the configuration; a file that is there is replaced. "
            "[dim]\\[default: calibration.toml next to the job file, which is replaced only if it "
            "was made for the same hierarchy][/]",
        ),
    ] = None,
    max_runs: Annotated[
        int | None,
        typer.Option(
            "--max-runs", min=1, help="Stop after this many runs, even if slacks still change."
        ),
    ] = None,
    old: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OLD.toml",
            help="Adapt an older configuration instead of running the recording.",
        ),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            metavar=_DELAY,
            help="With --from: how long events now take from a detector to its readers, for all "
            "types that detectors publish or for one.",
        ),
    ] = None,
    jitter: Annotated[
        list[str] | None,
        typer.Option(
            "--jitter",
            metavar=_DELAY,
            help="With --from: how late input events now are at most, by the clock.",
        ),
    ] = None,
    processing: Annotated[
        list[str] | None,
        typer.Option(
            "--processing", metavar=_DELAY, help="With --from: how long processing now takes."
        ),
    ] = None,
    back_setting: Annotated[
        list[str] | None,
        typer.Option(
            "--back-setting",
            metavar=_DELAY,
            help="With --from: how far outputs are now dated back at most.",
        ),
    ] = None,
    measure_jitter: Annotated[
        bool,
        typer.Option(
            "--measure-jitter",
            help="With --from: measure the jitter of the source. This reads the input once; the "
            "detectors do not run.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only errors: no progress, no table.")
    ] = False,
) -> None:
    """Find out how long each detector should wait, so that a run need not learn it.

    A new detector holds nothing back, and learns from events that come too late.
    A calibrated one has the right slack from its first event on, on every level.

    Without [bold]--from[/], betimes runs the source of the job several times, as a
    recording. The first run shows what level 1 needs, the second what level 2
    needs once level 1 waits long enough, and so on. It stops when a run changes
    nothing, which takes at most one run more than there are levels.

    With [bold]--from[/], betimes adapts an older configuration to what has changed
    since: a network, a sensor, a new detector. It keeps what has not changed and
    computes the slacks again, level by level. It does not run the detectors.

    The result is a table with the slack of each detector, before and now, and its
    parts: the jitter of its inputs, and the processing time, network delay and
    back-setting of its outputs. Add the line that is printed below the table to
    [cyan]\\[detect][/] in the job file. docs/calibration.md explains the details.

    [bold]Examples[/]

    [green]betimes calibrate job.toml[/]

    [green]betimes calibrate job.toml --from old.toml --network 40ms[/]

    [green]betimes calibrate job.toml --from old.toml --jitter near=60ms[/]
    """
    changes = {
        "network": network, "jitter": jitter, "processing": processing,
        "back_setting": back_setting,
    }  # fmt: skip
    job = _without_calibration(read_job(job_file))
    hierarchy = hierarchy_of(job)
    file = out or job.folder / "calibration.toml"
    progress = Progress(quiet=quiet, live=False)
    if old is None:
        _refuse_changes(changes, measure_jitter=measure_jitter)
        before = _known(file, hierarchy, named=out is not None)
        found = _iterative(job, hierarchy, progress, max_runs)
    else:
        if max_runs is not None:
            raise OptionError(
                "--max-runs limits runs, but --from runs nothing; leave one of them out"
            )
        if out is None and file.exists() and file.samefile(old):
            raise OptionError(
                f"the result would replace {shown(file.absolute())}, the file that --from "
                "names; write to another file with --out FILE"
            )
        _known(file, hierarchy, named=out is not None)
        before = Calibration.read(old)
        found = _adapted(job, hierarchy, progress, before, changes, measure_jitter=measure_jitter)
    found.write(file)
    if quiet:
        return
    _print(found, before)
    for note in found.notes:
        say(note)
    say(f"wrote {shown(file.absolute())}; add this line to [detect] in the job file:")
    typer.echo(f'calibration = "{_relative(file, job.folder)}"')


def _without_calibration(job: JobFile) -> JobFile:
    """The job without its calibration, whose file may not exist yet."""
    options = {name: v for name, v in job.detect.options.items() if name != "calibration"}
    return replace(job, detect=replace(job.detect, options=options))


def _refuse_changes(changes: Mapping[str, Sequence[str] | None], *, measure_jitter: bool) -> None:
    names = [f"--{name.replace('_', '-')}" for name, given in changes.items() if given]
    if names or measure_jitter:
        raise OptionError(
            f"expected --from together with {', '.join(names or ['--measure-jitter'])}, to adapt "
            "an older configuration; name its file with --from OLD.toml"
        )


def _known(file: Path, hierarchy: Hierarchy, *, named: bool) -> Calibration | None:
    """The calibration in the file so far, if it fits this hierarchy.

    One that does not fit may belong to another job in the same folder; it is replaced only if the
    user has named its file.
    """
    try:
        known = Calibration.read(file)
    except CalibrationError:
        return None
    differences = known.differences(hierarchy)
    if differences and not named:
        lines = "\n".join(f"  {line}" for line in differences)
        raise OptionError(
            f"{shown(file.absolute())} was made for another hierarchy, maybe by another job:\n"
            f"{lines}\nwrite to another file with --out FILE, or replace this one with --out "
            f"{shown(file.absolute())}"
        )
    return None if differences else known


def _iterative(
    job: JobFile, hierarchy: Hierarchy, progress: Progress, max_runs: int | None
) -> Calibration:
    check_source(job, hierarchy)
    check_recording(job)

    def tell(number: int, run: RunOutcome) -> None:
        said = "no slack changed"
        if run.changed:
            most = readable(max(after for _, after in run.changed.values()))
            said = f"slack found for {len(run.changed)} of {len(hierarchy)} detectors, up to {most}"
        progress.note(f"run {number}: {run.rows:,} events, late {run.late:,} times; {said}")

    name = "a simulated stream" if job.source.path is None else Path(job.source.path).name
    found = calibrate_on(
        job, hierarchy, progress, max_runs=max_runs, on_run=tell, measured_on=name
    )  # fmt: skip
    if not found.runs[-1].rows:
        raise OptionError(f"expected events in the source of {job.file}, found none")
    if not found.settled:
        progress.note("the last run still changed a slack; allow more runs with --max-runs")
    return found


def _adapted(
    job: JobFile,
    hierarchy: Hierarchy,
    progress: Progress,
    before: Calibration,
    changes: Mapping[str, Sequence[str] | None],
    *,
    measure_jitter: bool,
) -> Calibration:
    events = None
    if measure_jitter:
        check_source(job, hierarchy)
        check_recording(job)
        if job.engine.kind != "local":
            raise OptionError(
                '--measure-jitter reads the source in this process; it needs kind = "local" in '
                "[engine]"
            )
        events = recorded(job, progress)
    given = {name: _delays(name, texts) for name, texts in changes.items()}
    return recalibrate(before, hierarchy, events=events, source=job.source.clocks, **given)


def _delays(name: str, texts: Sequence[str] | None) -> _Delays:
    """The value of an option: one time for all types, or one per type.

    >>> _delays("network", ["40ms"]), _delays("jitter", ["ball=5ms", "near=45ms"])
    ('40ms', {'ball': '5ms', 'near': '45ms'})
    """
    if not texts:
        return None
    option = f"--{name.replace('_', '-')}"
    by_type = [text.rpartition("=") for text in texts]
    for *_, delay in by_type:
        microseconds(delay, option)
    if all(type for type, *_ in by_type):
        return {type: delay for type, _, delay in by_type}
    if len(texts) > 1:
        raise OptionError(
            f"expected {option} TIME once, or {option} TYPE=TIME for each type, got {list(texts)}"
        )
    return texts[0]


def _print(found: Calibration, before: Calibration | None) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("detector", no_wrap=True)
    names = ["level", "before", "slack", "jitter", "processing", "network", "back-setting"]
    for name in names if before is not None else [name for name in names if name != "before"]:
        table.add_column(name, justify="right", no_wrap=True)
    for name, setting in found.detectors.items():
        row = [name, str(setting.level)]
        if before is not None:
            known = before.detectors.get(name)
            row.append("-" if known is None else readable(known.slack))
        table.add_row(*row, readable(setting.slack), *_parts(setting))
    Console(highlight=False).print(table)


def _parts(setting: Setting) -> list[str]:
    """The largest value of each part of the slack."""
    emits = list(setting.emits.values())
    return [
        readable(max(setting.jitter.values())) if setting.jitter else "-",
        *(
            readable(max(getattr(parts, name) for parts in emits))
            for name in ("processing", "network", "back_setting")
        ),
    ]


def _relative(file: Path, folder: Path) -> str:
    """The path as it should appear in the job file."""
    there, here = file.absolute(), folder.absolute()
    return str(there.relative_to(here)) if there.is_relative_to(here) else str(there)
