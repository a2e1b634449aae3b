"""Configurations as TOML files, which people read, compare and edit.

Durations are text in a suitable unit, without loss. Reading is strict: an unknown key or detector
is an error, because a setting that is silently ignored is missing when it is needed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from betimes.configuration.value import (
    Calibration,
    CalibrationError,
    RunOutcome,
    Setting,
    SubDelays,
)
from betimes.model import OptionError, microseconds
from betimes.model.duration import exact
from betimes.model.hints import nearest
from betimes.model.identity import WHOLE, Identity, subject

FORMAT = 2

_HEADER = """\
# What each detector starts with: its slack (how long events are held back), and its parts.
# Made by betimes calibrate. To use it in a job:  [detect] calibration = "this file"
"""
_TOP = ("format", "hierarchy", "measured_on", "notes", "run", "detector")
_RUN = ("rows", "late", "changed")
_DETECTOR = ("level", "slack", "made_for", "clock", "offsets", "jitter", "emits")
_SUB_DELAYS = ("processing", "network", "back_setting")


def dumps(calibration: Calibration) -> str:
    """The text of a file."""
    return _HEADER + "\n".join(_lines(calibration)) + "\n"


def _lines(calibration: Calibration) -> Iterator[str]:
    yield f"format = {FORMAT}"
    facts = calibration.hierarchy.facts
    yield f"hierarchy = {_facts(facts.get(WHOLE, {}))}"
    yield f"measured_on = {_text(calibration.measured_on)}"
    if calibration.notes:
        yield f"notes = [{', '.join(map(_text, calibration.notes))}]"
    for run in calibration.runs:
        changed = {name: f"[{_time(a)}, {_time(b)}]" for name, (a, b) in run.changed.items()}
        yield "\n[[run]]"
        yield f"rows = {run.rows}"
        yield f"late = {run.late}"
        yield f"changed = {_inline(changed)}"
    for name, setting in calibration.detectors.items():
        yield f"\n[detector.{_text(name)}]"
        yield f"level = {setting.level}"
        yield f"slack = {_time(setting.slack)}"
        yield f"made_for = {_facts(facts.get(subject(name), {}))}"
        if setting.clock is not None:
            yield f"clock = {_text(setting.clock)}"
        for key in ("offsets", "jitter"):
            values = getattr(setting, key)
            if values:
                yield f"{key} = {_inline({t: _time(us) for t, us in values.items()})}"
        for type, delays in setting.emits.items():
            yield f"emits.{_text(type)} = " + _inline(
                {part: _time(getattr(delays, part)) for part in _SUB_DELAYS}, plain=True
            )


def _facts(facts: Mapping[str, str]) -> str:
    return _inline({name: _text(value) for name, value in facts.items()})


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _time(us: int) -> str:
    return _text(exact(us))


def _inline(values: Mapping[str, str], *, plain: bool = False) -> str:
    pairs = (f"{name if plain else _text(name)} = {value}" for name, value in values.items())
    return "{ " + ", ".join(pairs) + " }" if values else "{}"


def loads(text: str, where: str) -> Calibration:
    """A configuration from the text of a file."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CalibrationError(f"expected {where} to be TOML: {error}") from None
    if content.get("format") != FORMAT:
        raise CalibrationError(
            f"expected a configuration of format {FORMAT} in {where}, got format "
            f"{content.get('format')!r}; make it again with betimes calibrate"
        )
    return _Reader(where).calibration(content)


class _Reader:
    """Reads and checks the tables; errors say where in the file they are."""

    def __init__(self, where: str) -> None:
        self._where = where

    def calibration(self, content: dict[str, Any]) -> Calibration:
        table = self._table(content, "the file", _TOP)
        detectors = self._table(table.get("detector", {}), "[detector]", None)
        if not detectors:
            raise CalibrationError(f"expected some [detector.NAME] in {self._where}, got none")
        facts = {WHOLE: self._facts(table.get("hierarchy", {}), "hierarchy")} | {
            subject(name): self._facts(each["made_for"], f"[detector.{name}] made_for")
            for name, each in detectors.items()
            if isinstance(each, dict) and "made_for" in each
        }
        return Calibration(
            Identity(facts),
            {name: self._setting(name, each) for name, each in detectors.items()},
            self._of(str, table.get("measured_on", ""), "measured_on"),
            tuple(self._run(each) for each in self._of(list, table.get("run", []), "[[run]]")),
            tuple(
                self._of(str, note, "notes")
                for note in self._of(list, table.get("notes", []), "notes")
            ),
        )

    def _setting(self, name: str, content: Any) -> Setting:
        here = f"[detector.{name}]"
        table = self._table(content, here, _DETECTOR)
        if "slack" not in table:
            raise CalibrationError(f"expected a slack in {here} of {self._where}, got none")
        emits = self._table(table.get("emits", {}), f"{here} emits", None)
        clock = table.get("clock")
        return Setting(
            self._of(int, table.get("level", 0), f"{here} level"),
            self._duration(table["slack"], f"{here} slack"),
            None if clock is None else self._of(str, clock, f"{here} clock"),
            self._durations(table.get("offsets", {}), f"{here} offsets"),
            self._durations(table.get("jitter", {}), f"{here} jitter"),
            {
                type: SubDelays(**self._durations(each, f"{here} emits.{type}", _SUB_DELAYS))
                for type, each in emits.items()
            },
        )

    def _run(self, content: Any) -> RunOutcome:
        table = self._table(content, "[[run]]", _RUN)
        changed = self._table(table.get("changed", {}), "[[run]] changed", None)
        pairs = {
            name: tuple(self._duration(us, "[[run]] changed") for us in self._of(list, pair, name))
            for name, pair in changed.items()
        }
        for name, pair in pairs.items():
            if len(pair) != 2:
                raise CalibrationError(
                    f"expected [before, after] for {name!r} in [[run]] of {self._where}, got "
                    f"{len(pair)} values"
                )
        return RunOutcome(
            self._of(int, table.get("rows", 0), "[[run]] rows"),
            self._of(int, table.get("late", 0), "[[run]] late"),
            {name: (pair[0], pair[1]) for name, pair in pairs.items()},
        )

    def _facts(self, content: Any, here: str) -> dict[str, str]:
        table = self._table(content, here, None)
        return {name: self._of(str, value, f"{here} {name}") for name, value in table.items()}

    def _durations(
        self, content: Any, here: str, keys: Collection[str] | None = None
    ) -> dict[str, int]:
        table = self._table(content, here, keys)
        return {name: self._duration(value, f"{here} {name}") for name, value in table.items()}

    def _duration(self, value: Any, here: str) -> int:
        try:
            return microseconds(value)
        except OptionError:
            raise CalibrationError(
                f"expected a duration such as '150ms' at {here} of {self._where}, got {value!r}"
            ) from None

    def _table(self, content: Any, here: str, keys: Collection[str] | None) -> dict[str, Any]:
        if not isinstance(content, dict):
            raise CalibrationError(
                f"expected a table of keys and values at {here} of {self._where}, got {content!r}"
            )
        for name in content:
            if keys is not None and name not in keys:
                raise CalibrationError(
                    f"unknown key {name!r} at {here} of {self._where}{nearest(name, keys)}"
                )
        return content

    def _of(self, kind: type[Any], value: Any, here: str) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool):
            words = {str: "a text", int: "a whole number", list: "a list"}
            raise CalibrationError(
                f"expected {words[kind]} at {here} of {self._where}, got {value!r}"
            )
        return value
