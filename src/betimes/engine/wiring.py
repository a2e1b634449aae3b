"""Wiring: what a stage learns in a batch from the stages below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from betimes.engine.arrivals import Arrivals
from betimes.engine.history import pick
from betimes.engine.messages import News, Output
from betimes.engine.row_stage import RowStage
from betimes.engine.stage import Stage
from betimes.model import PSEUDO, Event, EventBatch


def news_for(
    stage: Stage, inputs: Arrivals, told: Mapping[str, News]
) -> tuple[Arrivals, list[Output], list[Output]]:
    """All that a stage learns in a batch: what arrives, what is taken back, what is confirmed."""
    on = stage.node.on
    below = [told[other.node.name] for other in stage.below if other.node.name in told]
    deleted = [output for news in below for output in news.deleted if output.event.type in on]
    confirmed = [output for news in below for output in news.confirmed if output.event.type in on]
    return _with_news(stage, inputs, below), deleted, confirmed


def _with_news(stage: Stage, inputs: Arrivals, below: Sequence[News]) -> Arrivals:
    """Input events, notices and outputs in the order in which single feeding would bring them."""
    outputs = [o for news in below for o in news.inserted if o.event.type in stage.node.on]
    notices = [notice for news in below for notice in news.notices]
    if not outputs and not notices:
        return inputs
    batch, at = inputs.batch, inputs.at
    types = dict.fromkeys((*batch.types, PSEUDO, *(o.event.type for o in outputs)))
    code = {name: number for number, name in enumerate(types)}
    made_at = [n[0] for n in notices] + [o.at for o in outputs]
    every_at = np.concatenate((at, np.array(made_at, np.int64)))
    order = np.argsort(every_at, kind="stable")
    more_ts = [n[1] for n in notices] + [o.event.ts for o in outputs]
    more_codes = [code[PSEUDO]] * len(notices) + [code[o.event.type] for o in outputs]
    offset = len(at) + len(notices)
    heads = np.zeros(len(every_at), np.int64)
    heads[offset:] = [o.head_start for o in outputs]
    merged = EventBatch(
        np.concatenate((batch.ts, np.array(more_ts, np.int64)))[order],
        np.concatenate((batch.codes, np.array(more_codes, np.int32)))[order],
        tuple(types),
        head_start=heads[order],
    )
    rows = order.tolist()
    every = inputs.events + [Event(PSEUDO, 0)] * len(notices) + [o.event for o in outputs]
    keys = inputs.keys
    if keys is not None:
        assert isinstance(stage, RowStage)
        mine = [stage.key(o.event, o.group) for o in outputs]
        keys = pick(keys + [None] * len(notices) + mine, rows)
    place = {old: new for new, old in enumerate(rows)}
    found = {place[offset + i]: output for i, output in enumerate(outputs)}
    return Arrivals(merged, pick(every, rows), every_at[order], found, keys)
