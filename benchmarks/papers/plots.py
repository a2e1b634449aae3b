"""The figures, on the papers' axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.papers.ordering import EXPERT, EXPERT_LEVEL, Delays, Slack
from benchmarks.papers.speculating import BURST, Trace

INK = "#222222"
LOOKS = {
    "buffering": ("#0072B2", "-"),
    "adaptive": ("#D55E00", "--"),
    "attenuation 0": ("#009E73", ":"),
}
"""The colours of Okabe and Ito, which everybody can tell apart; line styles help in print."""
TOP = 900
"""Larger slack is cut off in the figure, and written in, in milliseconds."""
TYPES = {
    "near": "#0072B2", "not_near": "#009E73", "kick": "#D55E00",
    "player": "#9cc5e0", "ball": "#f0b27a",
}  # fmt: skip
DOTS = 1_500
"""Of each type, about so many delays are drawn."""


def _canvas(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 4.6), dpi=110, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _style(axes, title, x, y)
    return figure, axes


def _style(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)


def latency(traces: Mapping[str, Trace], path: Path) -> None:
    """Speculation, figure 10."""
    figure, axes = _canvas("Latency of passes", "time [s]", "latency [ms]")
    for name in ("buffering", "adaptive"):
        times, took = zip(*traces[name].latencies(), strict=True)
        colour, style = LOOKS[name]
        mean = traces[name].mean_latency()
        axes.plot(
            times, 1e3 * np.array(took), style, color=colour, marker="o", markersize=4,
            label=f"{name}, mean {mean:.0f} ms",
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    figure.savefig(path)


def adaptation(trace: Trace, seconds: float, path: Path) -> None:
    """Speculation, figure 11."""
    figure, axes = _canvas("Adaptation", "time [s]", "attenuation, busy factor")
    axes.axvspan(*BURST, color="#e4e4e4", label="burst of positions")
    axes.axhspan(0.8, 0.9, color="#f3e3d3", label="target zone")
    axes.step(trace.times, trace.attenuation, where="post", color="#0072B2", linewidth=2,
              label="attenuation, mean")  # fmt: skip
    axes.step(trace.times, trace.busy, where="post", color="#D55E00", linestyle="--",
              label="busy factor")  # fmt: skip
    axes.set_xlim(0, seconds)
    axes.set_ylim(0, 1.05)
    axes.legend(frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path)


def load(traces: Mapping[str, Trace], seconds: float, path: Path) -> None:
    """Speculation, figure 12."""
    figure, axes = _canvas("CPU load", "time [s]", "CPU load [%]")
    for name, trace in traces.items():
        shares = 100 * trace.machine.load(seconds)
        colour, style = LOOKS[name]
        axes.stairs(
            shares, color=colour, linestyle=style, baseline=None, linewidth=1.6,
            label=f"{name}, mean {shares.mean():.0f} %, largest lag {max(trace.lags):.1f} s",
        )  # fmt: skip
    axes.set_ylim(0, 105)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path)


def slack(found: Mapping[str, Slack], path: Path) -> None:
    """Ordering, figure 7: values from i to i + 1 are of level i, sorted."""
    figure, axes = _canvas("Slack by level", "level", "slack [ms]")
    levels = sorted({each.level for each in found.values()})
    for level in levels:
        mine = sorted((each for each in found.values() if each.level == level), key=_whole)
        places = level + (np.arange(len(mine)) + 0.5) / len(mine)
        first = level == levels[0]
        whole = [each.whole for each in mine]
        axes.vlines(places, 0, whole, color="#9cc5e0", linewidth=5,
                    label="for what is dated back" if first else "")  # fmt: skip
        axes.vlines(places, 0, [each.disorder for each in mine], color="#0072B2", linewidth=5,
                    label="for disorder" if first else "")  # fmt: skip
        expert = EXPERT + level * EXPERT_LEVEL
        axes.hlines(expert, level, level + 1, color="#D55E00", linestyle="--",
                    label="an expert's choice" if first else "")  # fmt: skip
        for place, value in zip(places, whole, strict=True):
            if value > TOP:
                axes.text(place, TOP, f"{value:,.0f}", rotation=90, va="top", ha="right", size=8)
    axes.set_xticks(levels)
    axes.set_ylim(0, TOP)
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.6, 1.0))
    figure.savefig(path)


def _whole(each: Slack) -> float:
    return each.whole


def delays(found: Mapping[str, Mapping[float, Delays]], path: Path) -> None:
    """Ordering, figure 9, for two detectors."""
    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (detector, margins) in zip(
        figure.subplots(1, len(found)), found.items(), strict=True
    ):
        _style(axes, f"Delays and slack of {detector}", "time [s]", "delay, slack [ms]")
        _dots(axes, margins[0.0])
        for margin, colour in zip(margins, ("#222222", "#888888"), strict=True):
            each = margins[margin]
            order = np.argsort(each.at, kind="stable")
            axes.step(each.at[order], each.slack[order], where="post", color=colour, linewidth=1.8,
                      label=f"slack, margin {margin:g}: {each.missed.sum():,} missed")  # fmt: skip
            axes.plot(each.at[each.missed], each.delay[each.missed], "x", color=colour, mew=1.5)
        axes.set_ylim(0, 1.45 * max(each.slack.max() for each in margins.values()))
        axes.legend(frameon=False, ncols=2, loc="upper right", fontsize=9)
    figure.savefig(path)


def _dots(axes: Axes, each: Delays) -> None:
    for type, colour in TYPES.items():
        mine = np.flatnonzero(each.of(type))
        mine = mine[:: max(1, len(mine) // DOTS)]
        if len(mine):
            axes.plot(each.at[mine], each.delay[mine], ".", markersize=4, color=colour, label=type)
