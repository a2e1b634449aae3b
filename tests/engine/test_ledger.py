"""Full retraction: one message a key, and what its readers look up."""

from __future__ import annotations

import random

import pytest

from betimes.engine import Engine, Hierarchy
from betimes.engine.news.ledger import Ledger
from betimes.engine.news.news import News, Output, Void
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing.oracle import oracle
from tests.engine.material import BatchSum, Count, flat


def output(ts: int, key: str) -> Output:
    event, cause = Event("out", ts), (ts, 0, ts)
    return Output(f"{key}{ts}", event, (ts, 1000, (cause, 0)), cause, event, ts, ts, 0, 0, None,
                  key, f"{key}{ts}", 0)  # fmt: skip


def test_a_void_is_everything_of_its_key_from_a_place_on() -> None:
    ledger = Ledger()
    # Not in the order of their causes: that is how on-demand retraction may publish them.
    ledger.read(News(inserted=[output(ts, key) for key in "ab" for ts in (1, 5, 3)]), -1)
    news = News(voids=[Void("a", (3, 0, 0), "late")], inserted=[output(4, "a")])
    ledger.read(news, -1)
    assert [(o.id, o.why) for o in news.deleted] == [("a3", "late"), ("a5", "late")]
    again = News(voids=[Void("a", (0, 0, 0), ""), Void("b", (0, 0, 0), "")])
    ledger.read(again, -1)
    assert [o.id for o in again.deleted] == ["a1", "a4", "b1", "b3", "b5"]


def test_what_was_taken_back_by_name_is_not_taken_back_again() -> None:
    ledger, gone = Ledger(), output(1, "a")
    twin = output(1, "a")
    ledger.read(News(inserted=[twin, gone]), -1)
    ledger.read(News(deleted=[gone]), -1)
    news = News(voids=[Void("a", (0, 0, 0), "")])
    ledger.read(news, -1)
    assert len(news.deleted) == 1
    assert news.deleted[0] is twin


def test_what_is_older_than_anybody_may_ask_for_is_forgotten() -> None:
    ledger = Ledger()
    ledger.read(News(inserted=[output(ts, "ab"[ts % 2]) for ts in range(10)]), -1)
    ledger.read(News(), 8)
    news = News(voids=[Void("a", (0, 0, 0), ""), Void("b", (0, 0, 0), "")])
    ledger.read(news, 8)
    assert [o.id for o in news.deleted] == ["a8", "b9"]


@pytest.mark.parametrize("seed", range(40))
def test_a_detector_per_batch_tells_other_causes_after_a_replay(seed: int) -> None:
    """It is handed other batches than before, and gives the last event of each as the cause."""
    rng = random.Random(seed)
    hierarchy = Hierarchy(clock="A")
    hierarchy.add(BatchSum("sum"), on=("A", "B"), emits="sum", by=rng.choice([None, "k"]))
    hierarchy.add(Count("count", 2), on=("sum", "B"), emits="count")
    stream = [
        Event("A" if n % 3 else "B", max(0, 2 * n - rng.choice([0, 0, 3, 9])), {"k": n % 2})
        for n in range(60)
    ]
    engine = Engine(hierarchy, attenuation=0.0, retraction="full", retention="1h")
    changes, low = [], 0
    while low < len(stream):
        high = low + rng.choice([1, 2, 7, 20])
        changes.append(list(engine.feed(stream[low:high])))
        low = high
    changes.append(list(engine.finish()))
    assert fold(flat(changes)) == oracle(hierarchy, stream)
