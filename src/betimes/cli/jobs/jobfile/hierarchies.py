"""What a job detects: a hierarchy from Python, patterns and windows from the job file, or both."""

from __future__ import annotations

import copy
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from betimes.cli.jobs.jobfile.keys import Problems
from betimes.cli.jobs.jobfile.lines import Heading
from betimes.cli.jobs.jobfile.tables import JobFile
from betimes.cli.speaking import say
from betimes.engine import CalibrationError, Engine, Hierarchy
from betimes.model import BetimesError
from betimes.model.hints import did_you_mean
from betimes.patterns import PatternWarning, pattern
from betimes.windows import aggregate, window, windowed

_DETECT = Heading("detect")
_LISTS = ("detect.pattern", "detect.window")
_WINDOWED = ("frame", "instances", "schedule", "workers")
"""Keys of `[[detect.window]]` that say how windows are handled, not what they are."""


def hierarchy_of(job: JobFile) -> Hierarchy:
    """Build the hierarchy of a job, or report every problem with it."""
    hierarchy = assembled(job)
    job.problems.stop_if_any()
    return hierarchy


def assembled(job: JobFile) -> Hierarchy:
    """The hierarchy of a job; what is wrong with it is noted."""
    problems = job.problems
    hierarchy = _base(job, problems)
    for number, values in enumerate(job.detect.patterns, start=1):
        here = Heading("detect.pattern", number)
        options = {name: value for name, value in values.items() if value is not None}
        match = options.pop("match", None)
        if here in problems.tables or match is None:
            continue
        try:
            with _hints():
                hierarchy.add(pattern(match, **options))
        except BetimesError as error:
            problems.add(here, key_of(error), str(error))
    for number, values in enumerate(job.detect.windows, start=1):
        here = Heading("detect.window", number)
        if here not in problems.tables:
            _add_window(hierarchy, here, values, job)
    for name, settings in job.detect.detectors.items():
        try:
            hierarchy.adjust(name, **settings)
        except BetimesError as error:
            problems.add(Heading(f"detect.detector.{name}"), None, str(error))
    if problems.are_in("detect", *_LISTS, "sink") or not len(hierarchy):
        return hierarchy
    try:
        Engine(hierarchy, job.options)
    except CalibrationError as error:
        problems.add(_DETECT, "calibration", str(error))
    except BetimesError as error:
        problems.add(_DETECT, None, str(error))
    _hint_at_misspelt_types(hierarchy)
    return hierarchy


def _add_window(hierarchy: Hierarchy, here: Heading, values: dict[str, Any], job: JobFile) -> None:
    given = {name: value for name, value in values.items() if value is not None}
    wiring = {name: given.pop(name) for name in ("on", "emits", "by", "name") if name in given}
    options = {name: given.pop(name) for name in _WINDOWED if name in given}
    columns, function = given.pop("aggregate", None), given.pop("function", None)
    if (columns is None) == (function is None):
        job.problems.add(here, None, "expected either the table aggregate or function")
        return
    try:
        operator = (
            _found(function, job.folder, "summary") if columns is None else aggregate(**columns)
        )
        hierarchy.add(windowed(operator, window(**given), **options), **wiring)
    except _ImportProblemError as error:
        job.problems.add(here, "function", str(error))
    except BetimesError as error:
        job.problems.add(here, None, str(error))


def key_of(error: BetimesError) -> str | None:
    """The key of a pattern that an error is about, if it says so."""
    about = re.match(r"cannot \w+ (pattern|select|where|define)\b", str(error))
    return None if about is None else {"pattern": "match"}.get(about[1], about[1])


def heading_of(job: JobFile, detector: str) -> Heading:
    """The table that a detector comes from."""
    lists = (job.detect.patterns, job.detect.windows)
    for table, found in zip(_LISTS, lists, strict=True):
        for number, values in enumerate(found, start=1):
            if detector == (values["name"] or values["emits"]):
                return Heading(table, number)
    return _DETECT


def _hint_at_misspelt_types(hierarchy: Hierarchy) -> None:
    """A type that is nearly what another detector publishes is probably a typo."""
    published = {type: node.name for node in hierarchy for type in node.emits}
    for node in hierarchy:
        for type in node.on:
            if type not in published and (near := did_you_mean(type, published)):
                say(f"hint: {node.name!r} reads {type!r}, which no detector emits{near}")


def _base(job: JobFile, problems: Problems) -> Hierarchy:
    detect = job.detect
    hierarchy = None
    if detect.hierarchy is not None:
        hierarchy = _imported(detect.hierarchy, job.folder, problems)
    if hierarchy is None:
        return Hierarchy(clock=detect.clock, inputs=detect.inputs)
    # A copy: what is added here must not change the object in the module.
    hierarchy = copy.deepcopy(hierarchy)
    for name in ("clock", "inputs"):
        here, there = getattr(detect, name), getattr(hierarchy, name)
        if here is not None and there is not None and tuple(there) != here:
            problems.add(
                _DETECT, name, f"the hierarchy {detect.hierarchy!r} has {name}={list(there)}, the "
                f"job file has {name}={list(here)}; leave one of them out"
            )  # fmt: skip
        elif here is not None:
            setattr(hierarchy, name, here)
    return hierarchy


class _ImportProblemError(Exception):
    """Why `module:name` gave no hierarchy."""


def _imported(reference: str, folder: Path, problems: Problems) -> Hierarchy | None:
    """The hierarchy that `module:name` names: an object, or a function that returns one."""
    try:
        found = _found(reference, folder, "soccer")
        if not isinstance(found, Hierarchy) and callable(found):
            found = _called(found, reference)
        if isinstance(found, Hierarchy):
            return found
        raise _ImportProblemError(
            f"expected {reference!r} to be a Hierarchy, or a function that returns one, got a "
            f"{type(found).__name__}"
        )
    except _ImportProblemError as error:
        problems.add(_DETECT, "hierarchy", str(error))
        return None


def _found(reference: str, folder: Path, example: str) -> Any:
    """What `module:name` names."""
    module_name, _, name = reference.partition(":")
    if not (module_name and name):
        raise _ImportProblemError(f'expected "module:name", as in "my_app:{example}"')
    return _attribute(_module(module_name, folder), name)


def _module(name: str, folder: Path) -> ModuleType:
    try:
        with importing_from(folder):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not name.startswith(error.name):
            raise _ImportProblemError(
                f"{name} imports {error.name!r}, which is not installed"
            ) from None
        raise _ImportProblemError(
            f"found neither {name}.py next to the job file nor a module {name} in this environment"
        ) from None
    except Exception as error:
        raise _ImportProblemError(f"{name} cannot be imported: {_said(error)}") from error


def _attribute(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        hint = did_you_mean(name, dir(module))
        raise _ImportProblemError(f"{module.__name__} has no {name!r}{hint}")
    return getattr(module, name)


def _called(make: Callable[[], Any], reference: str) -> Any:
    try:
        return make()
    except Exception as error:
        raise _ImportProblemError(f"{reference} failed: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Let modules next to the job file take precedence over installed ones."""
    sys.path.insert(0, str(folder.absolute()))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder.absolute()))


@contextmanager
def _hints() -> Iterator[None]:
    """Show warnings about patterns as plain messages, each of them once."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", PatternWarning)
        yield
    for each in heard:
        if issubclass(each.category, PatternWarning):
            say(f"hint: {each.message}")
