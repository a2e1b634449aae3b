"""What an engine refuses: events in its own words, two calls at once, arguments without sense."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import betimes as bt
from betimes.engine.stages.observers import Observer
from betimes.host.columns import BadRow, Columns
from betimes.model.errors import BusyError
from betimes.model.event import RESERVED
from tests.engine.material import Count, tick


def counting() -> bt.Hierarchy:
    hierarchy = bt.Hierarchy(clock="A")
    hierarchy.add(Count("x"), on="A", emits="x")
    return hierarchy


@pytest.mark.parametrize("type", sorted(RESERVED))
def test_no_input_speaks_the_words_of_the_engine(type: str) -> None:
    engine = bt.Engine(counting())
    engine.feed([tick(ts, k=0) for ts in (1, 5, 3)])
    columns = bt.EventBatch(np.array([10**9]), np.zeros(1, np.int32), (type,))
    for events in (bt.Event(type, 10**9), columns):
        with pytest.raises(bt.EventError, match=f"got an event of type '{type}'"):
            engine.feed(events)
    assert engine.stats["Count"].clock == 5
    assert len(engine.feed([tick(ts, k=0) for ts in (9, 7, 20)])) > 0


@pytest.mark.parametrize("type", sorted(RESERVED))
@pytest.mark.parametrize("coded", [False, True])
def test_a_host_rejects_such_rows_and_keeps_the_others(type: str, *, coded: bool) -> None:
    names: Any = pa.array(["A", type, None, "A"])
    names = names.dictionary_encode() if coded else names
    table = pa.table({"ts": [1, 1000, 2, 3], "type": names, "v": [1, 2, 3, 4]})
    batch, (bad, nameless) = Columns().sift(table, "ms")
    assert batch.ts.tolist() == [1000, 3000]
    row = {"ts": 1000, "type": type, "v": 2}
    assert bad == BadRow("the type is one of betimes' own", row, 1_000_000), "as it came"
    assert nameless.reason == "the type is missing"
    bt.Engine(counting()).feed(batch)


def test_a_type_that_no_event_has_is_no_input() -> None:
    own = bt.Event("betimes.tick", 9)
    batch = bt.EventBatch.of([tick(1, k=0), own, tick(2, k=0), tick(3, k=0)])
    engine = bt.Engine(counting())
    engine.feed(batch.take(np.array([0, 2, 3])))
    assert engine.stats["Count"].clock == 3


def test_a_second_thread_is_refused() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(_: bt.Event) -> None:
        inside.set()
        assert go_on.wait(10)

    hierarchy = bt.Hierarchy(clock="A")
    hierarchy.add(slow, on="A", emits="x")
    engine = bt.Engine(hierarchy, attenuation=0.0)
    worker = threading.Thread(target=lambda: engine.feed(tick(1)))
    worker.start()
    assert inside.wait(10)
    uses: dict[str, Any] = {
        "feed": lambda: engine.feed(tick(2)),
        "advance": lambda: engine.advance("1s"),
        "finish": engine.finish,
        "checkpoint": engine.checkpoint,
    }
    for name, use in uses.items():
        with pytest.raises(BusyError, match=rf"{name}\(\) was called while .* one engine per"):
            use()
    go_on.set()
    worker.join()
    engine.finish()


def test_a_call_from_inside_is_refused() -> None:
    class Meddles(Observer):
        def made(self, stage: Any, outputs: Any) -> None:  # noqa: ARG002
            engine.feed(tick(99, k=0))

    engine = bt.Engine(counting(), attenuation=0.0, observers=[Meddles()])
    with pytest.raises(BusyError):
        engine.feed([tick(ts, k=0) for ts in range(5)])


@pytest.mark.parametrize("options", [{}, {"by": "k", "order": "key"}])
def test_an_argument_without_sense_harms_nothing(options: dict[str, Any]) -> None:
    engine = bt.Engine(counting(), **options)
    engine.feed([tick(ts, k=0) for ts in (1, 5)])
    for wrong in ("soon", {7: "1s"}, {0: "soon"}):
        with pytest.raises(bt.OptionError):
            engine.advance(wrong)
    engine.feed(tick(9, k=0))
    engine.finish()
