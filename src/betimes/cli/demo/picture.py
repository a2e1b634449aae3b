"""The pictures of `betimes demo`.

The first shows delays as dots and the slack of each policy as a line; the second shows how soon
results were known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from betimes.cli.demo.command import PolicyResult, Stream
    from betimes.cli.demo.early import GameResult

# The colours of Okabe and Ito, which everybody can tell apart; line styles help in print.
_LOOKS = (("#D55E00", "-"), ("#0072B2", "-"), ("#009E73", "-"), ("#555555", (0, (5, 3))))
_INK = "#222222"
_DOTS = 15_000
_POINTS = 3_000
_MS, _S = 1_000, 1_000_000


def draw(stream: Stream, runs: Sequence[PolicyResult], path: Path) -> None:
    """Draw the first picture and write it to `path`, whose suffix gives the format."""
    figure = Figure(figsize=(11, 5.6), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.085, 0.11, 0.7, 0.74))
    _draw_delays(axes, stream)
    for run, (colour, style) in zip(runs, _LOOKS, strict=True):
        rows = np.linspace(0, len(run.clock) - 1, _POINTS).astype(np.int64)
        axes.plot(
            run.clock[rows] / _S,
            run.slack[rows] / _MS,
            color=colour,
            linestyle=style,
            linewidth=1.8,
        )
    _label(axes, runs)
    what = "Delays in a simulated stream, and the slack that each policy learns from it"
    _title(figure, 0.93, "How long must an event wait?", 0.885, what)
    figure.savefig(path)


def _title(figure: Figure, top: float, title: str, below: float, what: str) -> None:
    figure.text(0.085, top, title, fontsize=16, fontweight="bold", color=_INK)
    figure.text(0.085, below, what, fontsize=10.5, color=_INK)


def _draw_delays(axes: Axes, stream: Stream) -> None:
    step = max(1, len(stream.delays) // _DOTS)
    ts, delays = stream.events.ts[::step] / _S, stream.delays[::step] / _MS
    axes.scatter(ts, delays, s=2.5, color="#b9b9b9", linewidths=0, rasterized=True)
    axes.set_yscale("log")
    axes.set_ylim(1, 2_000)
    axes.set_xlim(0, ts.max())
    axes.set_yticks([1, 10, 100, 1000], ["1 ms", "10 ms", "100 ms", "1 s"])
    axes.set_xlabel("stream time in seconds", color=_INK)
    axes.set_ylabel("delay, slack", color=_INK)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)


def _label(axes: Axes, runs: Sequence[PolicyResult]) -> None:
    """Label each line at its end, with labels moved apart where lines end close together."""
    order = sorted(range(len(runs)), key=lambda i: float(runs[i].slack[-1]), reverse=True)
    low, high = (float(np.log10(bound)) for bound in axes.get_ylim())
    next_place = 1.0
    on_axes = axes.transAxes
    for i in order:
        run, colour = runs[i], _LOOKS[i][0]
        end = (float(np.log10(max(1.0, run.slack[-1] / _MS))) - low) / (high - low)
        place = min(end, next_place)
        next_place = place - 0.125
        axes.plot(
            (1.003, 1.025), (end, place), transform=on_axes, clip_on=False, color=colour,
            linewidth=0.9,
        )  # fmt: skip
        axes.text(
            1.03, place, run.policy, transform=on_axes, va="center", color=colour,
            fontsize=10.5, fontweight="bold",
        )  # fmt: skip
        result = (
            f"waits {run.mean_wait / _MS:.0f} ms, {run.stats.late / run.stats.arrived:.2%} late"
        )
        axes.text(
            1.03, place - 0.03, result, transform=on_axes, va="top", color=_INK, fontsize=9
        )  # fmt: skip
    axes.text(
        0.012, 0.97, "each dot: the delay of one event", transform=on_axes, va="top",
        color="#777777", fontsize=9,
    )  # fmt: skip


_EARLY_LOOKS = (("#555555", "-"), ("#0072B2", "-"), ("#D55E00", "-"))


def draw_early(runs: Sequence[GameResult], path: Path) -> None:
    """Draw the share of final results known over time, and write the picture to `path`."""
    figure = Figure(figsize=(11, 4.4), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.085, 0.14, 0.68, 0.66))
    longest = max(float(run.latencies.max(initial=1)) for run in runs) / _MS
    for i, (run, (colour, style)) in enumerate(zip(runs, _EARLY_LOOKS, strict=True)):
        known = np.concatenate(([0], np.maximum(run.latencies, 0), [longest * _MS * 1.02])) / _MS
        share = np.append(np.linspace(0, 100, len(known) - 1), 100)
        axes.step(known, share, where="post", color=colour, linestyle=style, linewidth=2)
        _name_early(axes, run, colour, 0.88 - 0.3 * (len(runs) - 1 - i))
    axes.set_xlim(0, longest * 1.02)
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel("milliseconds after the result occurred, in stream time", color=_INK)
    axes.set_ylabel("final results known", color=_INK)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)
    what = "Detectors watch a game; the final result is the same with every attenuation"
    _title(figure, 0.915, "How soon is a result known?", 0.855, what)
    figure.savefig(path)


def _name_early(axes: Axes, run: GameResult, colour: str, place: float) -> None:
    name = f"attenuation {run.way}" if run.way[0].isdigit() else run.way
    axes.text(
        1.03, place, name, transform=axes.transAxes, va="center", color=colour,
        fontsize=10.5, fontweight="bold",
    )  # fmt: skip
    result = (
        f"mean {run.mean / _MS:.0f} ms; {run.count('insert')} announced,\n"
        f"{run.count('delete')} taken back, {run.result.total()} final"
    )
    axes.text(
        1.03, place - 0.05, result, transform=axes.transAxes, va="top", color=_INK, fontsize=9
    )
