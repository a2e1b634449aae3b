"""Copies of states as files: an engine publishes them, and scouts on other machines read them.

After each batch there is a file with its number: the whole state of each operator that wants
scouts, or the *steps* since the batch before. When the steps since the last whole state are larger
than it, a whole one follows, and what is older than the whole one before is removed. When it does
not pay, everything is removed.

Copies are guesses (see `betimes.transactions.foresight`). So nothing here is ever waited for, and
what is missing, damaged or cannot be written only means that nobody runs ahead.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyarrow import ArrowInvalid
from pyarrow import fs as files

from betimes.model.codec import CheckpointError, dumps, loads, sealed, unsealed
from betimes.transactions.copies import tell
from betimes.transactions.foresight import Foresight
from betimes.transactions.versions import Base

LEAST = 1 << 16
"""Bytes of steps that are never worth a whole state."""
_WHAT = "a published state"
_WHOLE, _STEP = "whole", "step"
_TROUBLE = (OSError, ArrowInvalid, CheckpointError, NotImplementedError)
_log = logging.getLogger(__name__)

Number = tuple[int, str]
"""The batch of a file, and what it has."""


class Publisher:
    """Publishes the states of one engine."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._wholes: list[int] = []
        self._steps = self._size = 0

    def publish(self, place: str, number: int, foresight: Foresight) -> None:
        """After a batch: publish what scouts have to know, or that they should not run."""
        follows = self._last is not None and self._last + 1 == number
        whole = not follows or self._steps > max(LEAST, self._size)
        said = foresight.publish(whole=whole)
        try:
            if said is not None:
                self._write(place, number, said.whole, sealed(dumps(said.states, _WHAT)))
            elif self._last is not None:
                _remove_before(place, number + 1)
                self._last = None
        except _TROUBLE as error:
            _log.info("nobody can run ahead: %s", error)
            self._last = None

    def _write(self, place: str, number: int, whole: bool, data: bytes) -> None:
        system, folder = _at(place)
        system.create_dir(folder, recursive=True)
        name = f"{folder}/{number:012}-{_WHOLE if whole else _STEP}"
        with system.open_output_stream(f"{name}.part") as file:
            file.write(data)
        system.move(f"{name}.part", name)
        self._last = number
        if not whole:
            self._steps += len(data)
            return
        self._steps, self._size = 0, len(data)
        self._wholes = [*self._wholes[-1:], number]
        _remove_before(place, self._wholes[0])


class Reader:
    """The published states, as a scout knows them; it reads only what is new."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, Base]]] = {}

    def read(self, place: str) -> Mapping[str, Base]:
        """The newest states, by operator; empty if nothing is published."""
        try:
            found = _read(place, *self._known.pop(place, (-1, {})))
        except Exception as error:  # noqa: BLE001 - whatever is there, nobody has to run ahead
            _log.info("nobody can run ahead: %s", error)
            return {}
        if found is None:
            return {}
        self._known = {place: found}
        return found[1]


def _read(place: str, known: int, states: dict[str, Base]) -> tuple[int, dict[str, Base]] | None:
    """The newest states, from those of an earlier batch if all steps since are there."""
    system, folder = _at(place)
    there = dict(_numbers(system, folder))
    if not there:
        return None
    newest = max(there)
    steps = range(known + 1, newest + 1)
    if known < 0 or any(there.get(number) != _STEP for number in steps):
        wholes = [number for number, kind in there.items() if kind == _WHOLE]
        if not wholes:
            return None
        steps, states = range(max(wholes), newest + 1), {}
    for number in steps:
        kind = there.get(number)
        if kind is None:
            return None
        with system.open_input_stream(f"{folder}/{number:012}-{kind}") as file:
            changes: dict[str, Any] = loads(unsealed(file.read(), _WHAT), _WHAT)
        for name, known_keys in changes.items():
            tell(states.setdefault(name, {}), known_keys)
    return newest, states


def _remove_before(place: str, number: int) -> None:
    system, folder = _at(place)
    for old, kind in _numbers(system, folder):
        if old < number:
            system.delete_file(f"{folder}/{old:012}-{kind}")


def _numbers(system: files.FileSystem, folder: str) -> list[Number]:
    listed = system.get_file_info(files.FileSelector(folder, allow_not_found=True))
    parts = [info.base_name.partition("-") for info in listed]
    return [(int(n), kind) for n, _, kind in parts if n.isdecimal() and kind in (_WHOLE, _STEP)]


def _at(place: str) -> tuple[files.FileSystem, str]:
    """The file system of a place, and the path there."""
    if "://" in place:
        return files.FileSystem.from_uri(place)
    return files.LocalFileSystem(), place
