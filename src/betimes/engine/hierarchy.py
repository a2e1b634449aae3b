"""The hierarchy: detectors wired by the event types they subscribe to and publish.

A detector's level is one more than the highest level of the detectors that publish what it
subscribes to; input events are level 0. The names of the types are the only wiring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import fields, replace
from typing import Any

from betimes.engine.describe import describe, type_names
from betimes.engine.node import Node
from betimes.engine.options import EngineOptions
from betimes.engine.own import Own
from betimes.engine.snapshots.spacing import SnapshotModel
from betimes.model.change import LATE, REJECTED
from betimes.model.duration import Duration
from betimes.model.errors import BetimesError, OptionError
from betimes.model.event import RESERVED
from betimes.model.hints import did_you_mean, known_options, unknown
from betimes.model.identity import WHOLE, Identity, spelled_names, subject
from betimes.ordering.clock import EVERY, parse_clock


class HierarchyError(BetimesError, ValueError):
    """The detectors cannot be wired: a cycle, a type nobody publishes, a name used twice."""


@known_options
class Hierarchy:
    """Detectors, wired by types. `clock` names the types that move the clocks; None learns them.

    `inputs` lists the types of the input. If you give it, subscribing to a type that is neither an
    input nor published by a detector is an error.

    >>> def fast(event):
    ...     if event["v"] > 5:
    ...         return Event("fast", event.ts, event.payload)
    >>> from betimes.model import Event
    >>> speed = Hierarchy(clock="position")
    >>> speed.add(fast, on="position", emits="fast")
    >>> print(speed.explain())
    level 0  position
    level 1  fast: position -> fast
    """

    def __init__(
        self,
        *,
        clock: str | Sequence[str] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> None:
        self.clock = parse_clock(clock)
        self.inputs = None if inputs is None else type_names(inputs, "inputs")
        self._nodes: dict[str, Node] = {}
        self._depth: int | None = None
        """The highest level of the hierarchy that it is a part of."""

    def add(
        self,
        detector: Any,
        *,
        on: str | Sequence[str] | None = None,
        emits: str | Sequence[str] | None = None,
        by: str | None = None,
        name: str | None = None,
        clock: str | Sequence[str] | None = None,
        slack: str | Duration | None = None,
        margin: float | None = None,
        attenuation: float | str | None = None,
        retraction: str | None = None,
        snapshots: str | int | SnapshotModel | None = None,
    ) -> None:
        """Add a detector: a class, a factory, a template instance, or a function of one event.

        It subscribes to the types `on` (`"*"`: every input type) and publishes the types `emits`.
        With `by`, it has one state per value of that payload column. A pattern brings all of this
        along; what you give here takes precedence.

        The other options are those of the hierarchy (`clock`) and of the engine, for this detector
        alone.
        """
        node = describe(detector, on=on, emits=emits, by=by, name=name)
        own = {
            "clock": clock, "slack": slack, "margin": margin, "attenuation": attenuation,
            "retraction": retraction, "snapshots": snapshots,
        }  # fmt: skip
        node = replace(node, own=Own.of(node.name, own))
        for type in {LATE, REJECTED, *RESERVED}.intersection(node.emits):
            raise HierarchyError(
                f"{type!r} is a type that the engine itself publishes, but detector {node.name!r} "
                f"has emits={list(node.emits)}; rename {type!r}"
            )
        for type in RESERVED.intersection(node.on):
            raise HierarchyError(
                f"{type!r} is a type with which betimes speaks to itself, and which no detector "
                f"gets, but detector {node.name!r} has on={list(node.on)}; leave {type!r} out"
            )
        if node.name in self._nodes:
            raise HierarchyError(
                f"expected every detector to have a different name, got name={node.name!r} twice; "
                "rename one of them with name="
            )
        for other in self._nodes.values():
            same = other.maker.source is node.maker.source
            if same and (other.on, other.by) == (node.on, node.by):
                raise HierarchyError(
                    f"{node.name!r} and {other.name!r} are two names for one thing: the same "
                    f"detector with on={list(node.on)}, by={node.by!r}; add it once"
                )
        self._nodes[node.name] = node
        try:
            self.levels()
        except HierarchyError:
            del self._nodes[node.name]
            raise

    def adjust(self, name: str, **settings: Any) -> None:
        """Change what a detector says for itself; `settings` are as in `add`.

        >>> speed = Hierarchy(clock="position")
        >>> speed.add(lambda event: None, on="position", emits="fast", name="fast")
        >>> speed.adjust("fast", attenuation=1)
        """
        node = self._nodes.get(name)
        if node is None:
            raise HierarchyError(
                f"expected the name of a detector, got {name!r}; there are {list(self._nodes)}"
                f"{did_you_mean(name, self._nodes)}"
            )
        known = [field.name for field in fields(Own)]
        problem = unknown([given for given in settings if given not in known], known, "option")
        if problem is not None:
            raise OptionError(f"detector {name!r}: {problem}")
        self._nodes[name] = replace(node, own=node.own.with_(name, settings))

    def adjusted(self, **settings: Any) -> Hierarchy:
        """A copy in which all detectors have these settings."""
        found = copy(self)
        found._nodes = dict(self._nodes)
        for name in self._nodes:
            found.adjust(name, **settings)
        return found

    def mapped(self, change: Callable[[Node], Node]) -> Hierarchy:
        """A copy in which each detector is what `change` makes of it."""
        found = copy(self)
        found._nodes = {name: change(node) for name, node in self._nodes.items()}
        return found

    def part(self, names: Collection[str]) -> Hierarchy:
        """These detectors, and nothing else; numbers of arrivals are those of the whole."""
        found = copy(self)
        found._nodes = {name: node for name, node in self._nodes.items() if name in names}
        found._depth = self.depth
        return found

    @property
    def depth(self) -> int:
        """The highest level."""
        return max(self.levels().values(), default=0) if self._depth is None else self._depth

    def clock_of(self, node: Node) -> tuple[str, ...] | None:
        """The types that move the clock of a detector; None if they are learned."""
        return self.clock if node.own.clock is None else node.own.clock

    @property
    def clocks(self) -> tuple[str, ...] | None:
        """The types that move the clock of any detector; None if some are learned."""
        every = [self.clock_of(node) for node in self] or [self.clock]
        found = [clock for clock in every if clock is not None]
        if len(found) < len(every):
            return None
        return tuple(dict.fromkeys(type for clock in found for type in clock))

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def levels(self) -> dict[str, int]:
        """The level of each detector, lowest first."""
        publishers: dict[str, list[str]] = {}
        for node in self:
            for type in node.emits:
                publishers.setdefault(type, []).append(node.name)
        levels: dict[str, int] = {}

        def visit(name: str, path: tuple[str, ...]) -> int:
            if name in path:
                cycle = " -> ".join((*path[path.index(name) :], name))
                raise HierarchyError(
                    f"expected detectors that build on each other without a cycle, got {cycle}; "
                    "let one of them publish another type"
                )
            if name not in levels:
                below = [p for t in self._nodes[name].on for p in publishers.get(t, ())]
                levels[name] = 1 + max((visit(p, (*path, name)) for p in below), default=0)
            return levels[name]

        for node in self:
            visit(node.name, ())
        return dict(sorted(levels.items(), key=lambda item: item[1]))

    def check(self) -> None:
        """Check what can only be checked when all detectors have been added."""
        if not self._nodes:
            raise HierarchyError("expected at least one detector; add one with add()")
        published = {type for node in self for type in node.emits}
        used = {type for node in self for type in node.on} | published | set(self.inputs or ())
        spelled: dict[str, str] = {}
        for type in sorted(used):
            other = spelled.setdefault(type.casefold(), type)
            if other != type:
                raise HierarchyError(
                    f"{other!r} and {type!r} are two names for one thing; spell the type one way"
                )
        for node in self:
            self._check_clock(node, published)
        if self.inputs is None:
            return
        both = published.intersection(self.inputs)
        if both:
            raise HierarchyError(
                f"expected a type to be either an input or published by a detector, but "
                f"{sorted(both)} are both; rename what the detector publishes"
            )
        for node in self:
            for type in node.on:
                if type not in (*published, *self.inputs, EVERY):
                    raise HierarchyError(
                        f"{node.name!r} subscribes to {type!r}, which no detector publishes and "
                        f"which is not among inputs={list(self.inputs)}; published are "
                        f"{sorted(published)}{did_you_mean(type, {*published, *self.inputs})}"
                    )

    def _check_clock(self, node: Node, published: set[str]) -> None:
        """The clock of a detector is moved by events that it can see.

        It must see all types of its own clock. Of those that all detectors share, one will do; and
        if nobody says what the input is, they may be in it.
        """
        clock, own = self.clock_of(node) or (), node.own.clock is not None
        seen = {EVERY, *node.on, *(self.inputs or ())}
        if self.inputs is None:
            seen |= {type for type in clock if not own or type not in published}
        unseen = [type for type in clock if type not in seen]
        if unseen and (own or len(unseen) == len(clock)):
            raise HierarchyError(
                f"detector {node.name!r} has clock={list(clock)}, but it does not see "
                f"{unseen[0]!r}: it sees the input events, and what it subscribes to; give another "
                "clock, or leave it out"
            )

    def own(self, options: EngineOptions) -> dict[str, dict[str, str]]:
        """What detectors say for themselves, over these options, in words."""
        return {node.name: node.own.facts(options) for node in self}

    def identity(self) -> Identity:
        """What makes it this hierarchy: clock, inputs, and each detector with all its options."""
        inputs = "any" if self.inputs is None else spelled_names(self.inputs)
        clock = "learned" if self.clock is None else spelled_names(self.clock)
        order = ", ".join(self.levels()) if len(self) else ""  # it decides between equal times
        detectors = {subject(node.name): node.facts() for node in self}
        return Identity({WHOLE: {"clock": clock, "inputs": inputs, "order": order}, **detectors})

    def __repr__(self) -> str:
        return f"Hierarchy:\n{self.explain()}" if self._nodes else "Hierarchy without detectors"

    def explain(self, format: str = "tree") -> str:  # noqa: A002
        """Show the hierarchy: as a `tree` of levels, as `mermaid` or as `dot`."""
        if format == "tree":
            return self._tree()
        published = {type for node in self for type in node.emits}
        edges: list[tuple[str, str, str | None]] = [
            (type, node.name, publisher)
            for node in self
            for type in node.on
            for publisher in (*(p.name for p in self if type in p.emits), None)
            if publisher is not None or type not in published
        ]
        if format == "mermaid":
            lines = ["flowchart BT"]
            for type, name, publisher in edges:
                source = _safe(publisher) if publisher else f"in_{_safe(type)}([{type}])"
                lines.append(f"    {source} -->|{type}| {_safe(name)}[{name}]")
            return "\n".join(lines)
        if format == "dot":
            lines = ["digraph betimes {", "    rankdir=BT;"]
            for type, name, publisher in edges:
                source = publisher or f"input {type}"
                lines.append(f'    "{source}" -> "{name}" [label="{type}"];')
            return "\n".join([*lines, "}"])
        raise OptionError(f"expected format to be tree, mermaid or dot, got format={format!r}")

    def _tree(self) -> str:
        levels = self.levels()
        published = {type for node in self for type in node.emits}
        inputs = dict.fromkeys(t for node in self for t in node.on if t not in published)
        lines = [f"level 0  {', '.join(inputs)}"]
        for name, level in levels.items():
            node = self._nodes[name]
            key = f" by {node.by}" if node.by else ""
            lines.append(
                f"level {level}  {name}: {', '.join(node.on)} -> {', '.join(node.emits)}{key}"
            )
        return "\n".join(lines)


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
