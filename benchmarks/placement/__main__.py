"""Placement: `python -m benchmarks.placement [PART ...]`; all parts by default.

* `optimiser`: against greedy and CP-SAT (`pip install ortools` first); `--minutes` per large one;
* `swing`: traffic while subscriptions swing, as in section 5.3 of the paper;
* `moves`: pauses of moves, by the size of the state, in virtual time;
* `nodes`: the scaled hierarchy on 1 to 8 virtual nodes;
* `workers`: one and two worker processes against one process.
"""

from __future__ import annotations

import argparse

from benchmarks.placement import moving, optimiser, workers

PARTS = ("optimiser", "swing", "moves", "nodes", "workers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all of them by default")
    parser.add_argument("--small", type=int, default=8, help="how many small problems")
    parser.add_argument("--large", type=int, default=1, help="how many large problems")
    parser.add_argument("--minutes", type=float, default=10.0, help="for CP-SAT, per large problem")
    parser.add_argument("--rounds", type=int, default=3, help="of worker processes")
    asked = parser.parse_args()
    for part in asked.parts or PARTS:
        print(f"\n{part}\n")
        if part == "optimiser":
            optimiser.show(small=asked.small, large=asked.large, minutes=asked.minutes)
        elif part == "swing":
            moving.show_swing()
        elif part == "moves":
            moving.show_moves()
        elif part == "nodes":
            moving.show_nodes()
        else:
            workers.show(asked.rounds)


if __name__ == "__main__":
    main()
