"""Wiring: what a stage learns in a batch from the stages below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from betimes.engine.news.news import News, Output
from betimes.engine.reading.arrivals import Arrivals
from betimes.engine.stages.driver import Stage
from betimes.engine.stages.tactic import Ints
from betimes.model import PSEUDO, EventBatch


def news_for(
    stage: Stage, inputs: Arrivals, told: Mapping[str, News]
) -> tuple[Arrivals, list[Output], list[Output]]:
    """What a stage learns in a batch: what arrives, what is taken back, what is confirmed."""
    if not stage.below:
        return inputs, [], []
    on = stage.node.on
    below = [told[other.node.name] for other in stage.below if other.node.name in told]
    deleted = [output for news in below for output in news.deleted if output.event.type in on]
    confirmed = [output for news in below for output in news.confirmed if output.event.type in on]
    return _with_news(stage, inputs, below), deleted, confirmed


def _with_news(stage: Stage, inputs: Arrivals, below: Sequence[News]) -> Arrivals:
    """Input events, notices and outputs, in the order that feeding one by one would give."""
    outputs = [o for news in below for o in news.inserted if o.event.type in stage.node.on]
    notices = [notice for news in below for notice in news.notices]
    if not outputs and not notices:
        return inputs
    batch, at = inputs.batch, inputs.at
    types = dict.fromkeys((*batch.types, PSEUDO, *(o.event.type for o in outputs)))
    code = {name: number for number, name in enumerate(types)}
    more = len(notices) + len(outputs)
    made_at = np.array([n[0] for n in notices] + [o.at for o in outputs], np.int64)
    more_ts = np.array([n[1] for n in notices] + [o.event.ts for o in outputs], np.int64)
    more_codes = [code[PSEUDO]] * len(notices) + [code[o.event.type] for o in outputs]
    # An output comes after the arrival that it was made with.
    order = np.argsort(made_at, kind="stable")
    place = np.empty(more, np.int64)
    place[order] = at.searchsorted(made_at[order], side="right") + np.arange(more)
    old = np.ones(len(at) + more, np.bool_)
    old[place] = False
    was = np.flatnonzero(old)

    def merged(known: npt.NDArray[Any], new: Ints | list[int]) -> npt.NDArray[Any]:
        column = np.empty(len(old), known.dtype)
        column[was], column[place] = known, new
        return column

    heads = np.zeros(len(old), np.int64)
    heads[place[len(notices) :]] = [o.head_start for o in outputs]
    columns = EventBatch(
        merged(batch.ts, more_ts),
        merged(batch.codes, more_codes),
        tuple(types),
        head_start=heads,
    )
    found = dict(zip(place[len(notices) :].tolist(), outputs, strict=True))
    assert stage.upper is not None
    return stage.upper.join(inputs, columns, merged(at, made_at), was, found)
