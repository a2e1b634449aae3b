"""Facts about Flink CEP as data, in `../shared/vectors`: all of them hold for the builder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from betimes.model import Event
from betimes.patterns.builder import Builder, begin
from betimes.patterns.matcher import Match, Matcher
from betimes.patterns.steps import PatternError

VECTORS = Path(__file__).parents[3] / "shared" / "vectors"
MILLISECOND = 1_000

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"no vectors at {VECTORS}")

Vector = dict[str, Any]


def vectors() -> Iterator[Any]:
    for path in sorted(VECTORS.glob("*.json")):
        for vector in json.loads(path.read_text()):
            yield pytest.param(vector, id=f"{path.stem}-{vector['name']}")


def events(vector: Vector) -> list[Event]:
    return [
        Event(
            each["type"],
            each["ts"] * MILLISECOND,
            {"n": each["n"], "id": each["id"], "name": each["name"], "price": each["price"]}
            | each.get("extra", {}),
        )
        for each in vector["events"]
    ]


def built(steps: list[Vector]) -> Builder:
    first, *others = steps
    pattern = quantified(begin(*arguments(first)), first)
    for step in others:
        pattern = quantified(getattr(pattern, step["op"])(*arguments(step)), step)
    return pattern


def arguments(step: Vector) -> tuple[Any, ...]:
    return (built(step["group"]),) if "group" in step else (step["name"], step["where"])


def quantified(pattern: Builder, step: Vector) -> Builder:
    between = step["within"] * MILLISECOND if step.get("within_scope") == "loop" else None
    match step["times"]:
        case [least, "inf"]:
            pattern = pattern.times_or_more(least, within=between)
        case [least, most]:
            pattern = pattern.times(least, most, within=between)
    if step["inner"] == "strict":
        pattern = pattern.consecutive()
    if step["inner"] == "combinations":
        pattern = pattern.allow_combinations()
    if step["greedy"]:
        pattern = pattern.greedy()
    if step["optional"]:
        pattern = pattern.optional()
    if step["until"]:
        pattern = pattern.until(step["until"])
    if step.get("within_scope") == "prev_cur":
        pattern = pattern.within(step["within"] * MILLISECOND, of="step")
    return pattern


def pattern(vector: Vector) -> Builder:
    facts = vector["pattern"]
    made = built(facts["steps"])
    if facts["within"]:
        made = made.within(facts["within"] * MILLISECOND)
    throws = facts.get("skip_miss") == "throw"
    return made.skip(facts["skip"], miss="error" if throws else "ignore")


def matcher(vector: Vector) -> Matcher:
    return Matcher(pattern(vector).spec, limit=10_000, timeouts=True)


class Naming:
    """Events by number; equal events have the same one."""

    def __init__(self, vector: Vector) -> None:
        self.number = {each["n"]: each["n"] for each in vector["events"]}
        for group in vector.get("equal_events", ()):
            self.number |= dict.fromkeys(group, min(group))

    def row(self, match: Match) -> tuple[int, ...]:
        return tuple(self.number[event["n"]] for _, event in match.bound)

    def rows(self, expected: list[list[int]]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(self.number[n] for n in row) for row in expected)

    def steps(self, match: Match) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name, event in match.bound:
            found.setdefault(name, []).append(self.number[event["n"]])
        return found


@pytest.mark.parametrize("vector", list(vectors()))
def test_it_means_what_it_means_in_flink(vector: Vector) -> None:
    running, naming = matcher(vector), Naming(vector)
    if vector.get("expected_error"):
        with pytest.raises(PatternError):
            run(running, vector)
        return
    found = run(running, vector)
    matches = [match for match in found if match.kind == "match"]
    if "expected" in vector:
        assert Counter(map(naming.row, matches)) == naming.rows(vector["expected"])
    if "expected_bindings" in vector:
        assert by_text(map(naming.steps, matches)) == by_text(vector["expected_bindings"])
    if "expected_count" in vector:
        assert len(matches) == vector["expected_count"]
    if "expected_timeouts" in vector:
        timeouts = [
            {"bindings": naming.steps(match), "at": match.ts // MILLISECOND}
            for match in found
            if match.kind == "timeout"
        ]
        assert by_text(timeouts) == by_text(vector["expected_timeouts"])
    if vector.get("no_open_runs"):
        assert running.state == (None, (), ())


def run(running: Matcher, vector: Vector) -> list[Match]:
    return [match for event in events(vector) for match in running.on_event(event)]


def by_text(rows: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
