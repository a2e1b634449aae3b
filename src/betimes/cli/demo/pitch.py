"""The picture of a match: the pitch, the players and the detections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerPatch, HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from betimes.model import Event

if TYPE_CHECKING:
    from betimes.apps.soccer import Stadium
    from betimes.cli.demo.match import Detection, MatchResult, Moment, Point

_TEAMS = {"A": "#0072B2", "B": "#D55E00", "R": "#555555"}
_GRASS, _LINE, _INK, _WRONG = "#eef4ea", "#b7c9ad", "#222222", "#C00000"
_GREY = "#777777"
_LISTED = 16
_NAMES = {"unsuccessful_pass": "lost pass", "shot_on_goal": "shot on goal"}
_MARKS = {
    "joins": "o", "duel": "D", "hit": "o", "shot": "^", "shot_on_goal": "^", "save": "s",
    "blocked_shot": "s", "goal": "*", "out": "X",
}  # fmt: skip
_SIZES = {"joins": 190, "hit": 26, "duel": 60}
_MEANINGS = {
    "hit": "hit", "joins": "near the ball", "duel": "duel", "shot": "shot", "save": "block, save",
    "goal": "goal", "out": "out",
}  # fmt: skip
"""One type for each mark, and what the mark means."""
_CROSS: dict[str, Any] = {"marker": "x", "s": 90, "color": _WRONG, "linewidths": 1.8}
_PLAYER: dict[str, Any] = {"s": 70, "alpha": 0.25, "linewidths": 0}
_BALL: dict[str, Any] = {"s": 36, "color": "white", "edgecolors": _INK, "linewidths": 1.2}


def draw_match(run: MatchResult, path: Path) -> None:
    """Draw the most eventful moment of a match and write it to `path`."""
    moment = run.moment(run.best_moment())
    figure = Figure(figsize=(11, 6.4), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.1, 0.66, 0.75))
    _draw_pitch(axes, run.stadium)
    _draw_players(axes, moment)
    where = _places(moment)
    for detection in moment.detections:
        _draw(axes, detection, where)
    _list(figure, moment)
    _explain(figure, run, moment)
    _legend(figure, axes)
    figure.savefig(path)


def _turned(place: Point) -> Point:
    """The pitch is drawn on its side: its length runs from left to right."""
    return place[1], place[0]


def _draw_pitch(axes: Axes, stadium: Stadium) -> None:
    pitch = stadium.pitch
    corner, far = _turned((pitch.left, pitch.bottom)), _turned((pitch.right, pitch.top))
    width, height = far[0] - corner[0], far[1] - corner[1]
    axes.add_patch(Rectangle(corner, width, height, facecolor=_GRASS, edgecolor=_LINE, lw=1.5))
    x, y = _turned(pitch.centre)
    axes.plot((x, x), (corner[1], far[1]), color=_LINE, lw=1.2, zorder=1)
    axes.add_patch(Circle((x, y), 9.15, fill=False, edgecolor=_LINE, lw=1.2))
    for goal in pitch.goals:
        axes.plot((goal.y, goal.y), (goal.left, goal.right), color=_INK, lw=4, zorder=2)
    axes.set_xlim(corner[0] - 3, far[0] + 3)
    axes.set_ylim(corner[1] - 3, far[1] + 3)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_players(axes: Axes, moment: Moment) -> None:
    for player, place in moment.places.items():
        x, y = _turned(place)
        axes.scatter([x], [y], **_PLAYER, color=_TEAMS.get(player[0], _INK))
        axes.text(x, y, player[1:], fontsize=6, ha="center", va="center", color=_INK, alpha=0.8)
    if moment.ball is not None:
        x, y = _turned(moment.ball)
        axes.scatter([x], [y], **_BALL, zorder=6)


def _places(moment: Moment) -> dict[tuple[str, int], Point]:
    """Where each hit was; other detections refer to hits by player and time."""
    return {
        (d.event["player"], d.event.ts): (d.event["x"], d.event["y"])
        for d in moment.detections
        if d.event.type == "hit"
    }


def _draw(axes: Axes, detection: Detection, where: dict[tuple[str, int], Point]) -> None:
    event, status = detection.event, detection.status
    start = where.get((event.payload.get("player", ""), event.ts))
    colour = _team(event)
    if event.type in ("pass", "unsuccessful_pass"):
        end = where.get((event["to"], event["received"]))
        if start is not None and end is not None:
            _arrow(axes, start, end, colour, status, lost=event.type != "pass")
        return
    place = start or detection.place
    if place is None:
        return
    x, y = _turned(place)
    axes.scatter([x], [y], zorder=5, **_looks(event.type, status, colour))
    if status == "taken back":
        axes.scatter([x], [y], zorder=7, **_CROSS)


def _looks(type: str, status: str, colour: str) -> dict[str, Any]:
    """How a detection is marked: filled if it is final, but a ring is always open."""
    ring = type == "joins"
    return {
        "marker": _MARKS[type], "s": _SIZES.get(type, 95), "edgecolors": colour,
        "facecolors": "none" if ring else colour if status == "final" else "white",
        "linewidths": 0.8 if ring else 1.3, "linestyle": "-" if status == "final" else "--",
        "alpha": 0.45 if status == "taken back" else 1.0,
    }  # fmt: skip


def _arrow(axes: Axes, start: Point, end: Point, colour: str, status: str, *, lost: bool) -> None:
    (x0, y0), (x1, y1) = _turned(start), _turned(end)
    axes.add_patch(_arrow_between((x0, y0), (x1, y1), colour, status, lost=lost))
    if status == "taken back":
        axes.scatter([(x0 + x1) / 2], [(y0 + y1) / 2], zorder=7, **_CROSS)


def _arrow_between(
    start: Point, end: Point, colour: str, status: str, *, lost: bool
) -> FancyArrowPatch:
    return FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=11, color=colour, zorder=4,
        lw=1.0 if lost else 1.8, alpha=0.4 if status == "taken back" else 0.9, shrinkA=3, shrinkB=4,
        linestyle="-" if status == "final" else (0, (4, 2)),
    )  # fmt: skip


def _team(event: Event) -> str:
    name = event.payload.get("team") or event["player"]
    return _TEAMS.get(name[0], _INK)


def _list(figure: Figure, moment: Moment) -> None:
    """List the newest detections; those taken back are crossed out."""
    newest = sorted(moment.detections, key=lambda d: (d.event.ts, d.told))[-_LISTED:]
    for number, detection in enumerate(newest):
        event, wrong = detection.event, detection.status == "taken back"
        y = 0.80 - 0.044 * number
        other = event.payload.get("to")
        who = event.payload.get("player", "") + (f" to {other}" if other else "")
        what = f"{_NAMES.get(event.type, event.type.replace('_', ' '))}, {who}"
        style = "italic" if detection.status == "provisional" else "normal"
        colour = _team(event)
        figure.text(0.70, y, f"{event.ts / 1e6:6.2f} s", fontsize=9, color="#777777")
        text = figure.text(0.755, y, what, fontsize=9, color=colour, style=style)
        text.set_alpha(0.5 if wrong else 1.0)
        figure.text(
            0.985, y, detection.status, fontsize=8, ha="right", style=style,
            color=_WRONG if wrong else "#777777",
        )  # fmt: skip
        if wrong:
            line = Line2D((0.755, 0.91), (y + 0.008, y + 0.008), color=_WRONG, lw=1.2)
            figure.add_artist(line)


def _explain(figure: Figure, run: MatchResult, moment: Moment) -> None:
    figure.text(
        0.02, 0.93, "A match, detected before the order of events is certain", fontsize=16,
        fontweight="bold", color=_INK,
    )  # fmt: skip
    figure.text(
        0.02, 0.885,
        f"{run.positions:,} positions in {run.seconds:.0f} s, out of order; what was known "
        f"{moment.at / 1e6:.2f} s into the match about the last 12 s",
        fontsize=10.5, color=_INK,
    )  # fmt: skip


def _legend(figure: Figure, axes: Axes) -> None:
    """What the marks mean, and how one can see what is final; drawn as in the picture."""

    def mark(type: str, status: str = "final") -> Any:
        return axes.scatter([], [], **_looks(type, status, _GREY))

    def pass_(status: str = "final", *, lost: bool = False) -> FancyArrowPatch:
        return _arrow_between((0, 0), (1, 0), _GREY, status, lost=lost)

    kinds = {words: mark(type) for type, words in _MEANINGS.items()}
    kinds |= {"pass": pass_(), "lost pass": pass_(lost=True)}
    kinds["player"] = axes.scatter([], [], **_PLAYER, color=_GREY)
    kinds["ball"] = axes.scatter([], [], **_BALL)
    states: dict[str, tuple[Artist, ...]] = {
        f"{status}: {how}": (mark("hit", status), mark("joins", status), pass_(status))
        for status, how in (("final", "filled, solid"), ("provisional", "white, dashed"))
    }
    states["taken back: crossed out"] = (axes.scatter([], [], **_CROSS),)
    for y, entries in ((0.055, kinds), (0.015, states)):
        figure.legend(
            [*entries.values()], [*entries], loc="lower left", bbox_to_anchor=(0.015, y),
            ncols=len(entries), frameon=False, fontsize=8.5, labelcolor="#777777",
            scatterpoints=1, borderpad=0, columnspacing=1.6, handletextpad=0.5,
            handlelength=10 if entries is states else 2,
            handler_map={
                tuple: HandlerTuple(ndivide=None, pad=0.4),
                FancyArrowPatch: HandlerPatch(_arrow_in_legend),
            },
        )  # fmt: skip


def _arrow_in_legend(
    legend: Legend,  # noqa: ARG001
    orig_handle: Artist,  # noqa: ARG001
    xdescent: float,
    ydescent: float,
    width: float,
    height: float,
    fontsize: float,  # noqa: ARG001
) -> FancyArrowPatch:
    """An arrow across the space of a legend's mark."""
    y = height / 2 - ydescent
    return FancyArrowPatch(
        (-xdescent, y), (width - xdescent, y), arrowstyle="-|>", mutation_scale=11
    )
