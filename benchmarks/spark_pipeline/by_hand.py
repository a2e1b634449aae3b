"""Written by hand: a buffer per key, released up to a bound behind the newest event."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

MATCHES = "key long, first long, last long"
BUFFER = "buffer binary, newest long, since long"
BOUND = 150_000


class Matcher:
    """`A !(A|B) C` for one key: what is open, and what was found."""

    def __init__(self, since: int | None) -> None:
        self.since = since
        self.found: list[tuple[int, int]] = []

    def take(self, ts: int, type: str) -> None:
        if type == "A":
            self.since = ts
        elif type == "B":
            self.since = None
        elif type == "C" and self.since is not None:
            self.found.append((self.since, ts))
            self.since = None


Buffer = list[tuple[int, str]]


def advance(buffer: Buffer, newest: int, match: Matcher, more: pd.DataFrame) -> tuple[Buffer, int]:
    """Take the events of one key, one by one; release those that are beyond the bound."""
    for event in zip(more["ts"].tolist(), more["type"].tolist(), strict=True):
        heappush(buffer, event)
        newest = max(newest, event[0])
        while buffer[0][0] <= newest - BOUND:
            match.take(*heappop(buffer))
    return buffer, newest


def advance_tuned(
    buffer: Buffer, newest: int, match: Matcher, more: pd.DataFrame
) -> tuple[Buffer, int]:
    """The same, sorting once per batch, and without clock events in the buffer."""
    newest = max(newest, int(more["ts"].max()))
    more = more[more["type"] != "X"]
    buffer = sorted([*buffer, *zip(more["ts"].tolist(), more["type"].tolist(), strict=True)])
    done = bisect_right(buffer, (newest - BOUND, "~"))
    for event in buffer[:done]:
        match.take(*event)
    return buffer[done:], newest


def frame(key: int, matches: list[tuple[int, int]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"key": key, "first": [m[0] for m in matches], "last": [m[1] for m in matches]}
    )


Advance = Callable[[Buffer, int, Matcher, pd.DataFrame], tuple[Buffer, int]]


def step(
    stored: tuple[bytes, int, int | None] | None, frames: Iterator[pd.DataFrame], advance: Advance
) -> tuple[tuple[bytes, int, int | None], list[tuple[int, int]]]:
    """The state of a key after a micro-batch, and the matches."""
    kept, newest, since = stored or (pickle.dumps([]), 0, None)
    buffer, match = pickle.loads(kept), Matcher(since)
    for more in frames:
        buffer, newest = advance(buffer, newest, match, more)
    return (pickle.dumps(buffer), newest, match.since), match.found


class WithState(StatefulProcessor):
    """The same with the newer operator."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("buffer", BUFFER)

    def handleInputRows(  # type: ignore[override] # frames go in, so frames come
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        del timerValues
        state, found = step(self._state.get(), rows, advance)
        self._state.update(state)
        if found:
            yield frame(int(key[0]), found)

    def close(self) -> None:
        pass


def group_state(events: DataFrame, advance: Advance) -> DataFrame:
    def handle(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        after, found = step(state.get if state.exists else None, frames, advance)
        state.update(after)
        if found:
            yield frame(int(key[0]), found)

    return events.groupBy("key").applyInPandasWithState(
        handle, MATCHES, BUFFER, "append", GroupStateTimeout.NoTimeout
    )


def with_state(events: DataFrame) -> DataFrame:
    grouped = events.groupBy("key")
    return grouped.transformWithStateInPandas(WithState(), MATCHES, "Append", "None")
