"""Descriptions: what you add to a hierarchy becomes a node, with the tactic that runs it.

`describe` is open: a new kind of detector registers its own description with `@describe.register`
and names its own tactic. Nothing else has to know about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from betimes.engine.node import Node
from betimes.engine.stages.columns import ColumnTactic
from betimes.engine.stages.rows import RowTactic
from betimes.engine.stages.slices import SliceTactic
from betimes.model.detector import Maker
from betimes.model.errors import OptionError
from betimes.patterns import Pattern

Types = str | Sequence[str] | None


@singledispatch
def describe(detector: Any, *, on: Types, emits: Types, by: str | None, name: str | None) -> Node:
    """A detector in Python: per event or per batch."""
    maker = Maker(detector)
    tactic = SliceTactic if maker.kind == "batch" else RowTactic
    return Node(
        name or maker.name, maker, type_names(on, "on"), type_names(emits, "emits"), by,
        tactic,
    )  # fmt: skip


@describe.register
def _pattern(
    pattern: Pattern, *, on: Types, emits: Types, by: str | None, name: str | None
) -> Node:
    """A pattern brings all of this along; what is given here takes precedence."""
    changed: dict[str, Any] = {"by": by or pattern.by, "name": name or pattern.name}
    if on is not None:
        changed["on"] = type_names(on, "on")
    if emits is not None:
        types = type_names(emits, "emits")
        if len(types) > 1:
            raise OptionError(
                f"expected a pattern to publish one type, got emits={emits!r}; give "
                "timed-out matches a separate type with timeouts="
            )
        (changed["emits"],) = types
    pattern = replace(pattern, **changed)
    maker = Maker(pattern.make)
    pattern.warn_of_growth()
    tactic = ColumnTactic if pattern.why_general() is None else RowTactic
    return Node(
        pattern.name or str(pattern.emits), maker, pattern.inputs, pattern.outputs, pattern.by,
        tactic, pattern, pattern.bystanders,
    )  # fmt: skip


def type_names(value: Types, option: str) -> tuple[str, ...]:
    """One or more event types, the way a user writes them."""
    names = (value,) if isinstance(value, str) else tuple(value or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise OptionError(
            f"expected {option} to be one or more event types, got {option}={value!r}"
        )
    return tuple(dict.fromkeys(names))
