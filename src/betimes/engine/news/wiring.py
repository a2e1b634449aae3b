"""Wiring: what a stage learns in a batch from the stages below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from betimes.engine.news.kernel import merge
from betimes.engine.news.news import Heard, News
from betimes.engine.news.outputs import AT, CAUSE, HEAD, TS, Outputs
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.tactic import Joined
from betimes.model import PSEUDO, EventBatch
from betimes.ordering.loop import plain

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
    types, codes = outputs.coded_types()
    wanted = [name in on for name in types]
    return outputs if all(wanted) else outputs.pick(np.flatnonzero(np.array(wanted)[codes]))


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
    batch, at, numbers = inputs.batch, inputs.at, outputs.numbers
    types, kinds = outputs.coded_types()
    code = {name: number for number, name in enumerate((*batch.types, PSEUDO))}
    table = np.array([code.setdefault(name, len(code)) for name in types], np.int32)
    came = [_came(each, news.certain) for each, news in zip(inserted, below, strict=True)]
    more_at, more_ts, more_codes = np.concatenate(came), plain(numbers[TS]), table.take(kinds)
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
    joined = Joined(columns, all_at, was, now, outputs)
    return stage.tactic.join(inputs, joined)
