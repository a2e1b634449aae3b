"""The options of an engine, as one checked value.

Users write keywords: `Engine(hierarchy, late="side")`, `spark.detect(..., late="side")`, or
`late = "side"` in a job file. All of them become an `EngineOptions`, which is checked once and then
passed on unchanged: to the order of each key, to the slots of a Spark job, to calibration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from betimes.configuration.value import Calibration
from betimes.engine.attenuation import Zone
from betimes.engine.retention import Retention
from betimes.engine.snapshots.spacing import SnapshotModel, parse_snapshots
from betimes.engine.stages.retraction import TECHNIQUES, Technique
from betimes.model import Duration, OptionError, microseconds
from betimes.model.duration import LONGEST, exact, or_off
from betimes.model.hints import did_you_mean, known_options, nearest, unknown
from betimes.model.identity import Identity, spelled_names
from betimes.model.times import USUAL as USUAL_UNIT
from betimes.model.times import check_unit
from betimes.ordering import SlackPolicy
from betimes.ordering.sources import QUIET

LATE_POLICIES = ("repair", "side", "drop")
RESULTS = ("provisional", "final")
USUAL = Zone()

FREE = frozenset({"attenuation", "retraction", "snapshots", "errors", "zone", "calibration"})
"""Options that may differ between a run and its restart: no saved state depends on them.

A calibration only sets the start; what a checkpoint has learned since takes precedence over it.
"""


@known_options
@dataclass(frozen=True, repr=False)
class EngineOptions:
    """The options of an engine, frozen and checked; `Engine` says what each of them means.

    >>> EngineOptions.of(late="side", retention="2s")
    EngineOptions(late='side', retention='2 s')
    >>> EngineOptions.of(atenuation=0.5)
    Traceback (most recent call last):
    ...
    betimes.model.errors.OptionError: unknown option 'atenuation'; did you mean 'attenuation'?
    """

    attenuation: float | str = "adaptive"
    retraction: Technique = "auto"
    slack: str | Duration = "largest"
    margin: float = 0.0
    min_slack: Duration = 0
    max_slack: Duration | None = None
    max_late: float = 0.01
    decay: Duration | None = None
    max_skew: Duration | None = "1h"
    late: str = "repair"
    retention: Duration = "32 MB"
    snapshots: str | int | SnapshotModel = "adaptive"
    errors: str = "stop"
    by: str | None = None
    order: str = "shared"
    source: str | None = None
    quiet: Duration | None = QUIET
    unit: str | None = None
    zone: Zone = USUAL
    calibration: Calibration | str | Path | None = None

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        results: str = "provisional",
        function: Callable[..., Any] | None = None,
        **more: Any,
    ) -> EngineOptions:
        """Options from keywords; a name that does not exist is an error that names the nearest.

        `results="final"` wants rows that are never taken back: no speculation and no repairs. If
        the options come from the keywords of a function, the error knows its other keywords, too.
        """
        given = {**(given or {}), **more}
        known = OPTIONS if function is None else (*OPTIONS, *keywords_of(function))
        problem = unknown([name for name in given if name not in OPTIONS], known, "option")
        if problem is not None:
            raise OptionError(problem)
        if results not in RESULTS:
            raise OptionError(
                f"expected results to be 'provisional' or 'final', got results={results!r}"
                + did_you_mean(results, RESULTS)
            )
        if results == "final":
            given = {"late": "side", "attenuation": 1.0} | given
            if given["late"] == "repair":
                raise OptionError(
                    "results='final' gives rows that are never taken back, but late='repair' takes "
                    "back even final ones; use late='side', or results='provisional'"
                )
        return cls(**given)

    def __post_init__(self) -> None:
        _check_choice(self.retraction, "retraction", TECHNIQUES)
        _check_choice(self.late, "late", LATE_POLICIES)
        _check_choice(self.errors, "errors", ("stop", "skip"))
        if not (self.attenuation == "adaptive" or _is_share(self.attenuation)):
            raise OptionError(
                "expected attenuation to be 'adaptive' or a number from 0 to 1, "
                f"got attenuation={self.attenuation!r}"
                + did_you_mean(self.attenuation, ["adaptive"])
            )
        if self.order not in ("shared", "key") or (self.order == "key" and self.by is None):
            raise OptionError(
                "expected order to be 'shared', or 'key' together with by=, "
                f"got order={self.order!r}, by={self.by!r}"
            )
        # Normalise durations and models, so that equal options compare equal; read files.
        if not (self.by is None or (isinstance(self.by, str) and self.by)):
            raise OptionError(f"expected by to name a payload column, got by={self.by!r}")
        if not (self.source is None or (isinstance(self.source, str) and self.source)):
            raise OptionError(
                f"expected source to name a payload column, got source={self.source!r}"
            )
        check_unit(self.unit)
        if not isinstance(self.zone, Zone):
            raise OptionError(f"expected zone to be a Zone, got zone={self.zone!r}")
        known = self.calibration
        for name, value in {
            "max_skew": or_off(self.max_skew, "max_skew"),
            "quiet": or_off(self.quiet, "quiet"),
            "retention": Retention.parse(self.retention).value,
            "snapshots": parse_snapshots(self.snapshots),
            "calibration": None if known is None else Calibration.of(known),
        }.items():
            object.__setattr__(self, name, value)
        self.policy  # noqa: B018 - checks its options

    def with_(self, **changed: Any) -> EngineOptions:
        """The same options, with some of them changed."""
        return replace(self, **changed)

    @cached_property
    def policy(self) -> SlackPolicy:
        """How the slack is learned."""
        return SlackPolicy.parse(
            self.slack, margin=self.margin, min_slack=self.min_slack, max_slack=self.max_slack,
            decay=self.decay, max_late=self.max_late,
        )  # fmt: skip

    @cached_property
    def kept(self) -> Retention:
        """How much history is kept."""
        return Retention.parse(self.retention)

    @property
    def adaptive(self) -> bool:
        """Whether the attenuation follows the load."""
        return self.attenuation == "adaptive"

    def __repr__(self) -> str:
        """The options that differ from the defaults, the way you would write them."""
        usual = EngineOptions()
        given = {name: getattr(self, name) for name in OPTIONS}
        shown = {name: value for name, value in given.items() if value != getattr(usual, name)}
        for name in {"max_skew", "quiet"}.intersection(shown):
            shown[name] = "off" if shown[name] == LONGEST else exact(shown[name])
        if "retention" in shown:
            shown["retention"] = self.kept.spelled()
        return f"EngineOptions({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def identity(self, own: Mapping[str, Mapping[str, str]]) -> Identity:
        """The options that saved states depend on; the others may differ after a restart.

        `own` has what detectors say for themselves.
        """
        return Identity({"options": {
            **self.policy.facts(),
            "max_skew": exact(microseconds(self.max_skew or 0)),
            "late": self.late,
            "retention": self.kept.kind,
            "by": "nothing" if self.by is None else spelled_names([self.by]),
            "order": self.order,
            "source": "nothing" if self.source is None else spelled_names([self.source]),
            "quiet": "not used" if self.source is None else exact(microseconds(self.quiet or 0)),
            "unit": self.unit or USUAL_UNIT,
            **{f"{fact} of {name!r}": own[name][fact] for name in own for fact in own[name]},
        }})  # fmt: skip


OPTIONS = tuple(field.name for field in fields(EngineOptions))
"""The names of all options."""


def signature(function: Any, **defaults: Any) -> inspect.Signature:
    """The signature of a function that takes `**options`, with their names and defaults."""
    own = inspect.signature(function)
    named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    names = {p.name for p in named}
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(
            f.name, keyword, default=defaults.get(f.name, f.default), annotation=f.type
        )
        for f in fields(EngineOptions)
        if f.name not in names
    ]
    return own.replace(parameters=[*named, *options])


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """The names of the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]


def _check_choice(value: object, name: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(
            f"expected {name} to be one of {', '.join(allowed)}, got {name}={value!r}"
            + (nearest(value, allowed) if isinstance(value, str) else "")
        )


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
