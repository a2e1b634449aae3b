"""Wiring: what a stage learns in a batch from the stages below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.news import Heard, News
from betimes.engine.news.outputs import AT, CAUSE, HEAD, TS, Outputs
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.tactic import Joined
from betimes.model import PSEUDO, EventBatch

_LATER = 2**63 - 1
_NOBODY = Heard()
"""What a stage hears for which nobody publishes."""


def news_for(stage: Stage, inputs: Arrivals, told: Mapping[str, News]) -> tuple[Arrivals, Heard]:
    """What a stage learns in a batch: what arrives, and what its publishers say about the past."""
    if not stage.reads:
        return inputs, _NOBODY
    on, below = stage.node.on, [told[name] for name in stage.reads]
    since = min([news.may_change_from for news in below])
    certain = tuple(news.certain for news in below) if stage.sourced else ()
    told_something = [news for news in below if not news.quiet or news.notices]
    if not told_something:
        return inputs, Heard(may_change_from=since, certain=certain)
    return _with_news(stage, inputs, told_something), Heard(
        Outputs.concat([_of(news.deleted, on) for news in told_something]),
        Outputs.concat([_of(news.confirmed, on) for news in told_something]),
        Outputs.concat([_of(news.provisional(), on) for news in told_something]),
        since,
        certain,
    )


def _of(outputs: Outputs, on: tuple[str, ...]) -> Outputs:
    """The outputs of these types."""
    if not len(outputs):
        return outputs
    wanted = [name in on for name in outputs.types]
    if all(wanted):
        return outputs
    return outputs.pick(np.flatnonzero(np.array(wanted)[outputs.events.codes]))


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


def _with_news(stage: Stage, inputs: Arrivals, below: Sequence[News]) -> Arrivals:
    """Input events, notices and outputs, in the order that feeding one by one would give."""
    inserted = [_of(news.inserted, stage.node.on) for news in below]
    outputs = Outputs.concat(inserted)
    notices = [notice for news in below for notice in news.notices]
    if not len(outputs) and not notices:
        return inputs
    batch, at = inputs.batch, inputs.at
    made = outputs.events
    types = dict.fromkeys((*batch.types, PSEUDO, *made.types))
    code = {name: number for number, name in enumerate(types)}
    more = len(notices) + len(outputs)
    numbers = outputs.numbers
    codes = np.array([code[name] for name in made.types], np.int32)[made.codes]
    told = np.array(notices, np.int64).reshape(-1, 2)
    came = [_came(each, news.certain) for each, news in zip(inserted, below, strict=True)]
    made_at = np.concatenate((told[:, 0], *came))
    more_ts = np.concatenate((told[:, 1], numbers[TS]))
    more_codes = np.concatenate((np.full(len(notices), code[PSEUDO], np.int32), codes))
    # An output comes after the arrival that it was made with.
    order = np.argsort(made_at, kind="stable")
    place = np.empty(more, np.int64)
    place[order] = at.searchsorted(made_at[order], side="right") + np.arange(more)
    old = np.ones(len(at) + more, np.bool_)
    old[place] = False
    was = np.flatnonzero(old)

    def merged(known: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
        column = np.empty(len(old), known.dtype)
        column[was], column[place] = known, new
        return column

    heads = np.zeros(len(old), np.int64)
    heads[place[len(notices) :]] = numbers[HEAD]
    columns = EventBatch(
        merged(batch.ts, more_ts),
        merged(batch.codes, more_codes),
        tuple(types),
        head_start=heads,
        source=None if batch.source is None else merged(batch.source, np.zeros(more, np.int64)),
    )
    joined = Joined(columns, merged(at, made_at), was, place[len(notices) :], outputs)
    return stage.tactic.join(inputs, joined)
