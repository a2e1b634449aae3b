"""A football match: from raw positions, out of order, to passes, shots and four statistics.

Run it: python examples/soccer.py

Twenty seconds of a simulated match, 34,000 positions per second, arrive as they do in a stadium: in
packets, with jitter, in bursts. Detectors do not wait until the order is certain; wrong results are
taken back. In the end, the result is the same as if the positions had arrived in order, and close
to what really happened.
"""

from __future__ import annotations

import betimes as bt
from betimes.apps.soccer import queries
from betimes.apps.soccer.disorder import disordered
from betimes.apps.soccer.hierarchy import soccer
from betimes.apps.soccer.scoring import detected, score
from betimes.apps.soccer.simulator import simulate
from betimes.apps.soccer.stadium import SIMULATED

SECOND = 1_000_000
SHOWN = ("pass", "unsuccessful_pass", "shot_on_goal", "save", "blocked_shot", "goal", "throw_in")


def main() -> None:
    match = simulate(20, seed=1)
    engine = bt.Engine(soccer(SIMULATED), attenuation=0.2)
    changes: list[bt.Change] = []
    for table in disordered(match.tables(3_400), "bursts", seed=1):
        changes += engine.feed(table)
    changes += engine.finish()

    for change in changes:
        if change.type in SHOWN and change.change_type != "confirm":
            to = change.payload.get("to", "")
            print(
                f"{change.change_type:7} {change.status:12} {change.type:18}"
                f"{change.ts / SECOND:6.2f} s  {change.payload['player']} {to}"
            )

    kinds = [change.change_type for change in changes]
    print(f"announced {kinds.count('insert')}, taken back {kinds.count('delete')}")
    found = score(detected(changes), match.truth)
    for kind in ("hit", "pass"):
        row = found[kind]
        print(f"{kind}: {row.found} found, {row.missed} missed, {row.false} false")

    shares = queries.possession_shares(changes, of="team")
    print("possession:", ", ".join(f"{team} {share:.0%}" for team, share in shares.items()))
    fastest = max(
        (row["metres"] / row["seconds"], row["player"])
        for row in queries.running(changes).to_pylist()
        if row["window"] == "game"
    )
    print(f"fastest: {fastest[1]} with {fastest[0] * 3.6:.1f} km/h")


if __name__ == "__main__":
    main()
