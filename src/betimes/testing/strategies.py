"""Hypothesis strategies: out-of-order streams, and ways to cut them into batches.

For tests of your detectors and of betimes itself. Needs hypothesis: `pip install betimes[testing]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from betimes.model import Event

T = TypeVar("T")


def delays(longest: int) -> st.SearchStrategy[int]:
    """Delays from 0 to `longest`, most of them short, as in real networks.

    >>> from hypothesis import given
    >>> given(delays(60))(lambda delay: print(end="" if 0 <= delay <= 60 else "bad"))()
    """
    short = min(longest, max(1, longest // 4))
    return st.one_of(st.just(0), st.integers(0, short), st.integers(0, longest))


@st.composite
def disordered(
    draw: st.DrawFn,
    *,
    types: Sequence[str] = ("A", "B", "C"),
    min_events: int = 0,
    max_events: int = 50,
    max_gap: int = 5,
    max_delay: int = 60,
    payloads: st.SearchStrategy[dict[str, Any]] | None = None,
) -> list[Event]:
    """Events in order of arrival, each with a random delay; ties in `ts` are common.

    Events occur 0 to `max_gap` apart and arrive 0 to `max_delay` after they occurred, so the slack
    that any unit needs is bounded. Counter-examples shrink to few events and short gaps and delays.
    Payloads are drawn from `payloads`; by default they are empty.

    >>> from hypothesis import find
    >>> [event.ts for event in find(disordered(types=["A"]), lambda s: len(s) > 1)]
    [0, 0]
    """
    event = st.tuples(
        st.sampled_from(types),
        st.integers(0, max_gap),
        delays(max_delay),
        st.builds(dict) if payloads is None else payloads,
    )
    drawn = draw(st.lists(event, min_size=min_events, max_size=max_events))
    ts, arriving = 0, []
    for type, gap, delay, payload in drawn:
        ts += gap
        arriving.append((ts + delay, Event(type, ts, payload)))
    return [event for _, event in sorted(arriving, key=lambda pair: pair[0])]


@st.composite
def cut(draw: st.DrawFn, stream: Sequence[T]) -> list[Sequence[T]]:
    """The stream cut into batches: of one event, of several, or of all at once; some are empty.

    >>> from hypothesis import find
    >>> find(cut([1, 2, 3]), lambda batches: len(batches) > 1)
    [[], [1, 2, 3]]
    """
    batches, low = [], 0
    sizes = st.one_of(st.just(len(stream)), st.integers(0, 5), st.integers(1, max(1, len(stream))))
    while low < len(stream):
        size = draw(sizes)
        batches.append(stream[low : low + size])
        low += size
    return batches


def engine_options() -> st.SearchStrategy[dict[str, Any]]:
    """Options for `Engine(..., **options)` that must not change the result.

    >>> from hypothesis import find
    >>> find(engine_options(), lambda options: options["attenuation"] < 1)
    {'attenuation': 0.5, 'retraction': 'full', 'snapshots': 1}
    """
    return st.fixed_dictionaries(
        {
            "attenuation": st.sampled_from([1.0, 0.5, 0.3, 0.0]),
            "retraction": st.sampled_from(["full", "on-demand", "auto"]),
            "snapshots": st.sampled_from([1, 3, 1000, "speculative", "speculative:5", "adaptive"]),
        }
    )
