"""A hierarchy as large as the papers': 93 detectors on 15 levels, with types for each player.

The papers report on over 70 detectors on 15 levels for more than 750 types of events. Wiring,
going back through many levels and the cost of a detector that has nothing to do show only at that
size. Here there are two teams, and everything is per player or per team:

| level | detectors | types | what they find |
|---|---|---|---|
| 1 | one per player, one for the ball | `near_A1`, `not_near_A1`, `kick` | who is near; kicks |
| 2 | one per player | `hit_A1` | the papers' *player hits ball*, `near_A1 !not_near_A1 ... kick` |
| 3 | one per player | `pass_A1_A2`, `lost_A1_B3` | where the ball goes, from all hits; dated back |
| 4 | two per team | `passes_A`, `losses_A` | all of a team, numbered |
| 5 to 15 | one per team and level | `series_A` and others | a ladder of detectors of all kinds |

An event on level 15 depends on everything below, so it is taken back whenever something below it
changes. The input is synthetic (`scaled_stream`): what counts is what it costs, not what it means.
"""

from __future__ import annotations

from collections.abc import Iterable

from betimes.engine import Hierarchy
from betimes.model import Event
from betimes.model.hints import known_options
from betimes.patterns import pattern
from betimes.testing.scaled.detectors import (
    Earlier,
    Kicks,
    Longest,
    Nearness,
    Numbered,
    Passes,
    Spells,
    Tempo,
    Totals,
)

MS = 1_000
TEAMS = ("A", "B")


def players(each: int) -> dict[str, list[str]]:
    """The players of both teams: `A1`, `A2` and so on."""
    return {team: [f"{team}{n}" for n in range(1, each + 1)] for team in TEAMS}


@known_options
def scaled_hierarchy(*, each: int = 11) -> Hierarchy:
    """The hierarchy, with a number of players in `each` team.

    >>> large = scaled_hierarchy()
    >>> len(large), max(large.levels().values())
    (93, 15)
    >>> len({type for node in large for type in (*node.on, *node.emits)})
    578
    """
    teams = players(each)
    everyone = [player for team in teams.values() for player in team]
    made = Hierarchy(clock="ball")
    made.add(Kicks, on="ball", emits="kick")
    for player in everyone:
        _add_player(made, player, teams)
    for team, mine in teams.items():
        others = [player for player in everyone if player not in mine]
        passes = _pairs("pass", mine, mine)
        made.add(
            Numbered(f"passes_{team}"), on=passes, emits=f"passes_{team}", name=f"Passes{team}"
        )
        losses = _pairs("lost", mine, others)
        made.add(
            Numbered(f"losses_{team}"), on=losses, emits=f"losses_{team}", name=f"Losses{team}"
        )
        _add_ladder(made, team)
    return made


def _pairs(kind: str, mine: Iterable[str], others: Iterable[str]) -> list[str]:
    others = list(others)
    return [f"{kind}_{player}_{other}" for player in mine for other in others if player != other]


def _add_player(made: Hierarchy, player: str, teams: dict[str, list[str]]) -> None:
    near, not_near, hit = f"near_{player}", f"not_near_{player}", f"hit_{player}"
    name = f"Nearness{player}"
    made.add(Nearness(player), on=f"distance_{player}", emits=(near, not_near), name=name)
    hits = pattern(
        f"{near} !{not_near} ... kick", emits=hit, within="10s", skip="none",
        select={"a": "kick.a"}, name=f"Hits{player}",
    )  # fmt: skip
    made.add(hits)
    mates = teams[player[0]]
    others = [other for team in teams.values() for other in team if other not in mates]
    goes = _pairs("pass", [player], mates) + _pairs("lost", [player], others)
    anyone = [f"hit_{each}" for team in teams.values() for each in team]
    made.add(Passes(player), on=anyone, emits=goes, name=f"Passes{player}")


def _add_ladder(made: Hierarchy, team: str) -> None:
    """Levels 5 to 15: each detector reads what the one below publishes."""

    def named(type: str) -> str:
        return f"{type}_{team}"

    passes, losses = named("passes"), named("losses")
    series = pattern(
        "first !lost second", emits=named("series"), within="5s", skip="to_next",
        define={"first": f"type == '{passes}'", "second": f"type == '{passes}'",
                "lost": f"type == '{losses}'"},
        on=(passes, losses), select={"n": "first.n", "took": "second.ts - first.ts"},
    )  # fmt: skip
    made.add(series)
    made.add(Tempo(named("tempo")), on=named("series"), emits=named("tempo"), name=f"Tempo{team}")

    def rated(event: Event) -> Event:
        return Event(named("rated"), event.ts, {"fast": event["mean"] < 400 * MS})

    made.add(rated, on=named("tempo"), emits=named("rated"), name=f"Rated{team}")
    spells = Spells(named("spell"), pause=300 * MS)
    made.add(spells, on=named("rated"), emits=named("spell"), name=f"Spells{team}")
    made.add(Totals(named("total")), on=named("spell"), emits=named("total"), name=f"Totals{team}")
    quiet = pattern(
        "total !another", emits=named("quiet"), within="100ms", skip="none", on=named("total"),
        define=dict.fromkeys(("total", "another"), f"type == '{named('total')}'"),
        select={"odd": "total.odd", "total": "total.total"},
    )  # fmt: skip
    made.add(quiet)
    by_parity = Longest(named("longest"))
    made.add(by_parity, on=named("quiet"), emits=named("longest"), by="odd", name=f"Longest{team}")
    earlier = Earlier(named("earlier"), by=50 * MS)
    made.add(earlier, on=named("longest"), emits=named("earlier"), name=f"Earlier{team}")
    again = Tempo(named("pace"))
    made.add(again, on=named("earlier"), emits=named("pace"), name=f"Pace{team}")
    change = pattern(
        "one next", emits=named("change"), within="30s", skip="to_next", on=named("pace"),
        define=dict.fromkeys(("one", "next"), f"type == '{named('pace')}'"),
        select={"by": "next.mean - one.mean"},
    )  # fmt: skip
    made.add(change)
    top = Numbered(named("momentum"))
    made.add(top, on=named("change"), emits=named("momentum"), name=f"Momentum{team}")
