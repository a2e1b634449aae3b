"""A configuration: what the detectors of a hierarchy start with, and how it is composed.

The slack of a detector is the largest delay of the events that it takes. A delay is a sum. Its
parts, the *sub-delays* (paper *slack*, sections III-B and IV-A), are kept as well, because they
depend on different things and change at different times:

* **jitter**: how late input events are, measured by the clock of the detector. It depends on the
  sensors and on the way to the engine, and occurs once, at the bottom.
* **ordering**: how long the detector that makes an event holds back the cause: its slack.
* **processing**: the time from the release of the cause until the readers have measured the output.
  Within one engine, these are the steps in which the clock moves.
* **network**: the way from the detector to its readers. Within one engine, it is 0.
* **back-setting**: how far before its cause the detector dates an output.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from betimes.model import OptionError
from betimes.model.duration import readable
from betimes.model.hints import known_options, nearest
from betimes.model.identity import Identity
from betimes.ordering.start import Start

_SHOWN = 5
"""How many detectors are shown when a calibration is printed or refused."""


class Wired(Protocol):
    """A hierarchy, as far as it matters here."""

    def levels(self) -> dict[str, int]: ...

    def identity(self) -> Identity: ...


class CalibrationError(OptionError):
    """A configuration cannot be used; the message says which part of it, and what to do."""


@dataclass(frozen=True)
class SubDelays:
    """What adds up with the slack of a detector before its readers have an output."""

    processing: int = 0
    network: int = 0
    back_setting: int = 0

    @property
    def total(self) -> int:
        return self.processing + self.network + self.back_setting


@dataclass(frozen=True)
class Setting:
    """What one detector starts with."""

    level: int
    slack: int = 0
    """The ordering delay of everything that it makes."""
    clock: str | None = None
    """The clock type, if it was learned."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Between clock types, if there are several."""
    jitter: Mapping[str, int] = field(default_factory=dict)
    """The largest delay of the input events that it takes, by type."""
    emits: Mapping[str, SubDelays] = field(default_factory=dict)
    """The sub-delays of what it makes, by type."""

    @property
    def start(self) -> Start:
        return Start(self.slack, self.clock, self.offsets)


@dataclass(frozen=True)
class RunOutcome:
    """The result of one run over the recorded stream."""

    rows: int
    late: int
    """Events that came to some detector after something later had settled."""
    changed: Mapping[str, tuple[int, int]]
    """Detectors that must start with other values: their slack before and after."""


@known_options
@dataclass(frozen=True, repr=False)
class Calibration:
    """What all detectors of a hierarchy start with; made by `calibrate` and `recalibrate`.

    `runs` says how it was found. It is `settled` if the last run changed nothing: for a stream like
    the recorded one, every slack is then right from the first event on.
    """

    hierarchy: Identity
    """The hierarchy that it was made for."""
    detectors: Mapping[str, Setting]
    measured_on: str = ""
    runs: tuple[RunOutcome, ...] = ()
    notes: tuple[str, ...] = ()
    """What had to be assumed."""

    @classmethod
    def nothing(cls, hierarchy: Wired, measured_on: str = "") -> Calibration:
        """The configuration before anything was measured."""
        levels = hierarchy.levels()
        settings = {name: Setting(level) for name, level in levels.items()}
        return cls(hierarchy.identity(), settings, measured_on)

    @classmethod
    def of(cls, given: Calibration | str | Path) -> Calibration:
        """A configuration, or the file that it is in."""
        return given if isinstance(given, Calibration) else cls.read(given)

    @classmethod
    def read(cls, file: str | Path) -> Calibration:
        """Read a file that `write` wrote, possibly edited since."""
        from betimes.configuration.files import loads

        try:
            text = Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CalibrationError(
                f"expected a calibration file at {str(file)!r}, but it cannot be read: {error}; "
                "make one with betimes calibrate"
            ) from None
        return loads(text, str(file))

    def write(self, file: str | Path) -> None:
        """Write it to a TOML file."""
        Path(file).write_text(self.to_toml(), "utf-8")

    def to_toml(self) -> str:
        """The text of the file."""
        from betimes.configuration.files import dumps

        return dumps(self)

    @property
    def settled(self) -> bool:
        """Whether the last run changed nothing."""
        return bool(self.runs) and not self.runs[-1].changed

    def __repr__(self) -> str:
        """The slack of the first few detectors, and a digest that differs if any start does."""
        starts = "\n".join(f"{name} {each.start}" for name, each in self.detectors.items())
        content = f"{self.hierarchy.digest} {starts}"
        digest = blake2b(content.encode(), digest_size=4).hexdigest()
        slacks = [f"{name} {readable(each.slack)}" for name, each in self.detectors.items()]
        more = ", ..." if len(slacks) > _SHOWN else ""
        return f"Calibration(slack: {', '.join(slacks[:_SHOWN])}{more}; id {digest})"

    def check(self, hierarchy: Wired) -> Calibration:
        """Refuse a hierarchy that this was not made for."""
        lines = self.differences(hierarchy)
        if not lines:
            return self
        raise CalibrationError(
            "the calibration was made for another hierarchy:\n"
            + "\n".join(f"  {line}" for line in lines)
            + "\nmake a new one with calibrate(), or adapt this one with recalibrate() (betimes "
            "calibrate --from)"
        )

    def of_part(self, part: Wired) -> Calibration:
        """The same for a part of the hierarchy."""
        mine = {name: self.detectors[name] for name in part.levels()}
        return replace(self, hierarchy=part.identity(), detectors=mine)

    def differences(self, hierarchy: Wired) -> list[str]:
        """How a hierarchy differs from the one that this was made for: one line per difference."""
        names = list(hierarchy.levels())
        unknown = [name for name in self.detectors if name not in names]
        if len(unknown) == len(self.detectors) > _SHOWN:
            return [
                f"it is for {_some(self.detectors)}, and none of these is in the hierarchy, which "
                f"has {_some(names)}"
            ]
        lines = [f"{name!r} is not in the hierarchy{nearest(name, names)}" for name in unknown]
        lines += [
            f"{name!r} is not in the calibration" for name in names if name not in self.detectors
        ]
        return lines or hierarchy.identity().differences(self.hierarchy)


def _some(names: Collection[str]) -> str:
    """How many detectors there are, and the names of the first few.

    >>> _some(["touch", "Pair"]), _some("ABCDEFG")
    ('2 detectors (touch, Pair)', '7 detectors (A, B, C, D, E, ...)')
    """
    first = ", ".join([*names][:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} detector{'' if len(names) == 1 else 's'} ({first})"
