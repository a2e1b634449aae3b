"""Full retraction: one message a key, and what its readers look up."""

from __future__ import annotations

import random

import pytest

from betimes.engine import Engine, Hierarchy
from betimes.engine.news.ledger import Ledger
from betimes.engine.news.news import News, Void
from betimes.engine.news.outputs import Output, Outputs
from betimes.model import Event
from betimes.model.change import fold
from betimes.testing.oracle import oracle
from tests.engine.material import BatchSum, Count, flat


def output(ts: int, key: str) -> Output:
    event, cause = Event("out", ts), (ts, 0, ts)
    place = (ts, 1, ("detector", cause, 0))
    return Output(f"{key}{ts}", event, place, cause, "out", ts, ts, 0, 0, None, key, 0)


def told(*outputs: Output, voids: tuple[Void, ...] = (), reach: int = -1) -> News:
    return News(inserted=Outputs.of([*outputs]), voids=voids, reach=reach)


def test_a_void_is_everything_of_its_key_from_a_place_on() -> None:
    ledger = Ledger()
    # Not in the order of their causes: that is how on-demand retraction may publish them.
    ledger.read(told(*(output(ts, key) for key in "ab" for ts in (1, 5, 3))))
    news = ledger.read(told(output(4, "a"), voids=(Void("a", (3, 0, 0), "late"),)))
    assert news.deleted.ids == ["a3", "a5"]
    assert news.whys == ("late", "late")
    assert not news.voids, "looked up"
    again = ledger.read(told(voids=(Void("a", (0, 0, 0), ""), Void("b", (0, 0, 0), ""))))
    assert again.deleted.ids == ["a1", "a4", "b1", "b3", "b5"]


@pytest.mark.parametrize("sorted_before", [False, True])
def test_what_was_taken_back_by_name_is_not_taken_back_again(sorted_before: bool) -> None:
    ledger, gone = Ledger(), output(1, "a")
    if sorted_before:
        ledger.read(told(voids=(Void("z", (0, 0, 0), ""),)))
    ledger.read(told(gone, output(2, "a")))
    ledger.read(News(deleted=Outputs.of([gone]), whys=("late",)))
    news = ledger.read(told(voids=(Void("a", (0, 0, 0), ""),)))
    assert news.deleted.ids == ["a2"]


def test_what_comes_again_after_it_was_taken_back_can_be_taken_back_again() -> None:
    ledger, made = Ledger(), output(1, "a")
    ledger.read(told(made))
    ledger.read(News(deleted=Outputs.of([made]), whys=("late",), inserted=Outputs.of([made])))
    assert ledger.read(told(voids=(Void("a", (0, 0, 0), ""),))).deleted.ids == ["a1"]


def test_what_is_older_than_anybody_may_ask_for_is_forgotten() -> None:
    ledger = Ledger()
    ledger.read(told(*(output(ts, "ab"[ts % 2]) for ts in range(10))))
    ledger.read(told(reach=8))
    voids = (Void("a", (0, 0, 0), ""), Void("b", (0, 0, 0), ""))
    assert ledger.read(told(voids=voids, reach=8)).deleted.ids == ["a8", "b9"]


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
