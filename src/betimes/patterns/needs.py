"""Which columns a pattern needs, compared with those that its input has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from betimes.model.hints import nearest
from betimes.patterns.conditions import Expression, types_for
from betimes.patterns.expressions import parse
from betimes.patterns.pattern import Pattern
from betimes.patterns.source import SourceText
from betimes.patterns.steps import PatternError
from betimes.patterns.syntax import BUILT_IN, Aggregate, Column, Expr, StepColumn, walk
from betimes.patterns.wellformed import every
from betimes.patterns.where import expressions


def missing_columns(
    pattern: Pattern, columns: Collection[str], published: Collection[str]
) -> list[PatternError]:
    """An error for each column that the input does not have, pointing at where it is read.

    Nothing is known about the columns of `published` types, which other detectors make.

    >>> from betimes.patterns import pattern
    >>> rising = pattern("A B", where="B.v > A.w", emits="C", within="1s")
    >>> for error in missing_columns(rising, ["v"], []):
    ...     print(error)
    cannot use where
      B.v > A.w
            ^^^
    the source has no column 'w'; known are v
    """
    takes = [pair for step in every(pattern.spec.steps) for pair in step.takes]
    from_input = {
        name
        for name, condition in takes
        if (types := types_for(condition)) is not None and types.isdisjoint(published)
    }
    errors: dict[str, PatternError] = {}
    for name, expr, source in _expressions(pattern):
        for node, step, column in _read(expr, name):
            if step in from_input and column not in columns and column not in BUILT_IN:
                said = f"the source has no column {column!r}{nearest(column, columns)}"
                error = source.error(said, node.span, "use")
                errors.setdefault(str(error), error)
    return list(errors.values())


def _expressions(pattern: Pattern) -> Iterator[tuple[str, Expr, SourceText]]:
    """All expressions, each with the step whose events it tests."""
    for step in every(pattern.spec.steps):
        for name, condition in (*step.takes, (step.name, step.until)):
            for tested in expressions(condition):
                assert isinstance(tested, Expression)
                yield name, tested.expr, tested.source
    for column, text in (pattern.select or {}).items():
        source = SourceText(text, f"select[{column!r}]")
        yield "", parse(text, source.what), source


def _read(expr: Expr, name: str) -> Iterator[tuple[Expr, str, str]]:
    """The columns that an expression reads, and of which step."""
    for node, _ in walk(expr):
        if isinstance(node, Column):
            yield node, name, node.name
        elif isinstance(node, StepColumn | Aggregate) and node.column is not None:
            yield node, node.step, node.column
