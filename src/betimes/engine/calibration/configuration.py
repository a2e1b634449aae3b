"""A configuration: what the detectors of a hierarchy start with, and what it is made of.

The slack of a detector is the largest delay of the events that it takes. A delay is a sum, and its
parts, the *sub-delays* (paper *slack*, sections III-B and IV-A), are kept beside it, because they
depend on different things and change at different times:

* **jitter**: how late input events are, as seen by the clock of the detector. It depends on sensors
  and on the way to the engine, and comes in once, at the bottom.
* **ordering**: how long the detector that makes an event holds back the cause: its slack.
* **processing**: from when order lets the cause pass until the readers have measured the output.
  Within one engine these are the steps in which the clock moves.
* **network**: the way from the detector to its readers. Within one engine there is none.
* **back-setting**: by how much the detector dates an output back against its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.model import OptionError
from betimes.model.hints import nearest
from betimes.model.identity import Identity
from betimes.ordering.start import Start

if TYPE_CHECKING:
    from betimes.engine.hierarchy import Hierarchy


class CalibrationError(OptionError):
    """A configuration that cannot be used: which part of it, and what to do."""


@dataclass(frozen=True)
class SubDelays:
    """What is added to the slack of a detector until its readers have an output."""

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
    """The ordering delay of all that it makes."""
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
    """What one run over the recorded stream has shown."""

    rows: int
    late: int
    """Events that came to some detector after something later had settled."""
    changed: Mapping[str, tuple[int, int]]
    """Detectors that must start differently: their slack before and after."""


@dataclass(frozen=True, repr=False)
class Calibration:
    """What all detectors of a hierarchy start with; made by `calibrate` and `recalibrate`.

    `runs` tells how it was found. It is `settled` if the last run changed nothing: a stream like
    the recorded one then finds every slack in place, from the first event on.
    """

    hierarchy: Identity
    """The hierarchy that it was made for."""
    detectors: Mapping[str, Setting]
    measured_on: str = ""
    runs: tuple[RunOutcome, ...] = ()
    notes: tuple[str, ...] = ()
    """What had to be assumed."""

    @classmethod
    def nothing(cls, hierarchy: Hierarchy, measured_on: str = "") -> Calibration:
        """The configuration of those who know nothing."""
        levels = hierarchy.levels()
        settings = {name: Setting(level) for name, level in levels.items()}
        return cls(hierarchy.identity(), settings, measured_on)

    @classmethod
    def of(cls, given: Calibration | str | Path) -> Calibration:
        """A configuration, or the file that it is in."""
        return given if isinstance(given, Calibration) else cls.read(given)

    @classmethod
    def read(cls, file: str | Path) -> Calibration:
        """Read a file that `write` has written, or somebody has edited since."""
        from betimes.engine.calibration.files import loads

        try:
            text = Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CalibrationError(
                f"expected a configuration in {str(file)!r}, but it cannot be read: {error}; "
                "make one with betimes calibrate"
            ) from None
        return loads(text, str(file))

    def write(self, file: str | Path) -> None:
        """Write it down as TOML."""
        Path(file).write_text(self.to_toml(), "utf-8")

    def to_toml(self) -> str:
        """The text of the file."""
        from betimes.engine.calibration.files import dumps

        return dumps(self)

    @property
    def settled(self) -> bool:
        """Whether a run has shown that nothing changes any more."""
        return bool(self.runs) and not self.runs[-1].changed

    def __repr__(self) -> str:
        """Short, and different for different starts: the state of a run may rest on it."""
        starts = "\n".join(f"{name} {each.start}" for name, each in self.detectors.items())
        digest = blake2b(starts.encode(), digest_size=8).hexdigest()
        return f"Calibration({self.hierarchy.digest}, {digest})"

    def check(self, hierarchy: Hierarchy) -> Calibration:
        """Refuse a hierarchy that this was not made for."""
        names = [node.name for node in hierarchy]
        lines = [
            f"{name!r} is not in the hierarchy{nearest(name, names)}"
            for name in self.detectors
            if name not in names
        ]
        lines += [
            f"{name!r} is not in the configuration" for name in names if name not in self.detectors
        ]
        lines = lines or hierarchy.identity().differences(self.hierarchy)
        if not lines:
            return self
        raise CalibrationError(
            "expected a configuration of this hierarchy, got one of another:\n"
            + "\n".join(f"  {line}" for line in lines)
            + "\nmake one anew with calibrate(), or from this one with recalibrate() (betimes "
            "calibrate --from)"
        )
