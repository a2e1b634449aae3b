"""Wiring: what a stage learns in a batch from the stages below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.kernel import merge
from betimes.engine.news.news import Heard, News
from betimes.engine.news.outputs import AT, CAUSE, HEAD, NO_OUTPUTS, TS, Outputs
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.tactic import Joined
from betimes.model import PSEUDO, EventBatch
from betimes.ordering.loop import plain

_LATER = 2**63 - 1
_NOBODY = Heard()
"""What a stage hears for which nobody publishes."""


class Wiring:
    """What the stages have told so far in a batch, and what each learns from those below it."""

    def __init__(self) -> None:
        self.told: dict[str, News] = {}
        self._joined: dict[tuple[Any, ...], Joined | None] = {}
        """Input events and news as columns: stages that hear the same share them."""

    def since(self, stage: Stage) -> int | None:
        """Nothing earlier will be taken back from below; None if nobody publishes anything."""
        return min([self.told[name].may_change_from for name in stage.reads], default=None)

    def news_for(self, stage: Stage, inputs: Arrivals) -> tuple[Arrivals, Heard]:
        """What arrives at a stage, and what its publishers say about the past."""
        if not stage.reads:
            return inputs, _NOBODY
        since, below = self.since(stage), [self.told[name] for name in stage.reads]
        certain = tuple(news.certain for news in below) if stage.sourced else ()
        below = [news for news in below if not news.quiet or news.notices]
        if not below:
            return inputs, Heard(may_change_from=since, certain=certain)
        on = stage.node.on
        shared = stage.reads, on, inputs.batch
        if shared not in self._joined:
            self._joined[shared] = _joined(inputs, below, on)
        joined = self._joined[shared]
        return inputs if joined is None else stage.tactic.join(inputs, joined), Heard(
            _of_all([news.deleted for news in below], on),
            _of_all([news.confirmed for news in below], on),
            _of_all([news.provisional() for news in below], on),
            since,
            certain,
        )


def _of_all(parts: Iterable[Outputs], on: tuple[str, ...]) -> Outputs:
    """The outputs of these types."""
    found = [_of(outputs, on) for outputs in parts if outputs is not NO_OUTPUTS]
    return Outputs.concat(found) if found else NO_OUTPUTS


def _of(outputs: Outputs, on: tuple[str, ...]) -> Outputs:
    if outputs.made_one_by_one:
        rows = [output for output in outputs.rows if output.event.type in on]
        return outputs if len(rows) == len(outputs) else Outputs.of(rows)
    types, codes = outputs.coded_types()
    wanted = [name in on for name in types]
    return outputs if all(wanted) else outputs.pick(np.flatnonzero(np.array(wanted)[codes]))


def _codes(outputs: Outputs, number: dict[str, int]) -> npt.NDArray[np.int32]:
    """The types of outputs as numbers; a new one gets the next."""
    if outputs.made_one_by_one:
        names = [output.event.type for output in outputs.rows]
        return np.array([number.setdefault(name, len(number)) for name in names], np.int32)
    types, codes = outputs.coded_types()
    table = [number.setdefault(name, len(number)) for name in types]
    return np.array(table, np.int32).take(codes)


def _came(outputs: Outputs, certain: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    """The arrivals with which outputs were made.

    A replay makes all of a key with the last arrival that disturbed it. If we know when order
    became certain, each was made before it was certain up to its cause.
    """
    at: npt.NDArray[np.int64] = outputs.numbers[AT]
    if certain is not None:
        rise = certain[1].searchsorted(outputs.numbers[CAUSE])
        at = np.minimum(at, np.append(certain[0], _LATER)[rise])
    return at


def _joined(inputs: Arrivals, below: Sequence[News], on: tuple[str, ...]) -> Joined | None:
    """Input events, notices and outputs, in the order that feeding one by one would give.

    None if there are only input events.
    """
    inserted = [_of(news.inserted, on) for news in below]
    outputs = Outputs.concat(inserted)
    notices = [notice for news in below for notice in news.notices]
    if not len(outputs) and not notices:
        return None
    batch, at, numbers = inputs.batch, inputs.at, outputs.numbers
    code = {name: number for number, name in enumerate((*batch.types, PSEUDO))}
    came = [_came(each, news.certain) for each, news in zip(inserted, below, strict=True)]
    more_at, more_ts, more_codes = np.concatenate(came), plain(numbers[TS]), _codes(outputs, code)
    if notices:
        told = np.array(notices, np.int64)
        more_at = np.concatenate((told[:, 0], more_at))
        more_ts = np.concatenate((told[:, 1], more_ts))
        pseudo = np.full(len(notices), code[PSEUDO], np.int32)
        more_codes = np.concatenate((pseudo, more_codes))
    # An output comes after the arrival that it was made with.
    old, more = len(at), len(more_at)
    all_at, all_ts = np.empty(old + more, np.int64), np.empty(old + more, np.int64)
    codes, was, place = (
        np.empty(old + more, np.int32),
        np.empty(old, np.int64),
        np.empty_like(more_at),
    )
    merge(
        plain(at), plain(batch.ts), plain(batch.codes), more_at, more_ts, more_codes,
        np.argsort(more_at, kind="stable"), all_at, all_ts, codes, was, place,
    )  # fmt: skip
    now = place[len(notices) :]
    heads = np.zeros(old + more, np.int64)
    heads[now] = numbers[HEAD]
    source = None
    if batch.source is not None:
        source = np.zeros(old + more, np.int64)
        source[was] = batch.source
    columns = EventBatch(all_ts, codes, tuple(code), head_start=heads, source=source)
    return Joined(columns, all_at, was, now, outputs)
