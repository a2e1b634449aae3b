"""A simulated football match: positions of 144 sensors, and what happened.

>>> match = simulate(1.5, seed=3)
>>> table = next(match.tables())
>>> table.num_rows, table.column_names[:6]
(51300, ['ts', 'type', 'sid', 'x', 'y', 'z'])

The modules, from the outside in: `match` (the public interface), `director` (who does what),
`kicks`, `restarts` and `tactics` (what can be done), `checks` (what can be seen from positions),
`physics` (how the ball and people move), `sensors` (what is reported), `truth` (what it is called).
"""

from betimes.apps.soccer.simulator.match import Match, simulate
from betimes.apps.soccer.simulator.truth import Ball, is_on_goal, is_shot, projected

__all__ = ["Ball", "Match", "is_on_goal", "is_shot", "projected", "simulate"]
