"""Patterns that run compiled: which ones do, and what they are compiled to.

The common class: a sequence of steps that each bind one event, relaxed or strict; negated steps
between them; alternatives; a window; conditions on the event's own columns, and comparisons with
columns of earlier steps; skip past last. `why_not` says why a pattern is not in this class.

A compiled pattern is a `Program`. It computes two numbers per event of a batch: which steps the
event fits by its own columns (one bit per step), and which waits it ends. Everything that concerns
several events at once happens in `kernel.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from betimes.model.batch import EventBatch
from betimes.model.event import Event
from betimes.patterns import kernel
from betimes.patterns.conditions import AllOf, AnyOf, Expression, TypeIs, types_for
from betimes.patterns.steps import Condition, Spec, Step
from betimes.patterns.syntax import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Negative,
    Not,
    Or,
    StepColumn,
    children,
    conjuncts,
    steps_of,
    walk,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ORDERS = 64
"""Batches list their types in many orders; this many of these are remembered."""

_OPS = {
    "+": kernel.ADD, "-": kernel.SUBTRACT, "*": kernel.MULTIPLY, "/": kernel.DIVIDE,
    "//": kernel.FLOOR, "%": kernel.MODULO,
    "==": kernel.EQUAL, "!=": kernel.UNEQUAL, "<": kernel.LESS, "<=": kernel.LESS_EQUAL,
    ">": kernel.GREATER, ">=": kernel.GREATER_EQUAL,
}  # fmt: skip


def why_not(spec: Spec) -> str | None:
    """Why a pattern of this form cannot be compiled; None if it can."""
    if spec.skip != "past_last":
        return f"skip is {spec.skip}, not past_last"
    if len(spec.steps) > kernel.BOUND_PLACE - 1:
        return f"it has more than {kernel.BOUND_PLACE - 1} steps"
    if spec.steps[-1].negated:
        return f"it ends with {spec.steps[-1].name} and has to wait for time to pass"
    if spec.only is not None and _why_not_own(spec.only):
        return _why_not_own(spec.only)
    places: dict[str, int] = {}
    bound = 0
    for before, step in zip((None, *spec.steps), spec.steps, strict=False):
        reason = _why_not_step(step) or _why_not_conditions(step, places)
        if reason is None and before is not None and before.negated and step.negated:
            both = [split(condition)[1] for each in (before, step) for _, condition in each.takes]
            if any(both):
                reason = f"{before.name} or {step.name} reads earlier steps, next to the other"
        if reason is not None:
            return reason
        if not step.negated:
            if len(step.takes) == 1:
                places[step.takes[0][0]] = bound
            bound += 1
    return None


def _why_not_step(step: Step) -> str | None:
    if step.group:
        return f"{step.name} is a group"
    if step.optional or (step.least, step.most) != (1, 1):
        return f"{step.name} is optional or repeated"
    if step.within is not None or step.until is not None:
        return f"{step.name} has its own window or end"
    if step.op in ("followed_by_any", "not_next"):
        return f"{step.name} follows by {step.op}"
    return None


def _why_not_conditions(step: Step, places: dict[str, int]) -> str | None:
    for name, condition in step.takes:
        own, earlier = split(condition)
        for part in own:
            if reason := _why_not_own(part):
                return reason
        if earlier and len(step.takes) > 1:
            return f"{name} is one of several alternatives and reads earlier steps"
        for expr in earlier:
            for node, _ in walk(expr):
                if isinstance(node, Aggregate | Call) and not _is_abs(node):
                    return f"a condition of {name} uses {_called(node)}() on earlier steps"
                if isinstance(node, StepColumn) and (
                    node.step not in places or node.column == "type"
                ):
                    return f"a condition of {name} reads {node.step}.{node.column}"
                if isinstance(node, Column) and node.name == "type":
                    return f"a condition of {name} compares type with an earlier step"
                if isinstance(node, Literal) and isinstance(node.value, str):
                    return f"a condition of {name} uses text together with an earlier step"
    return None


def _is_abs(node: Aggregate | Call) -> bool:
    return isinstance(node, Call) and node.function == "abs"


def _called(node: Aggregate | Call) -> str:
    return node.function


def _why_not_own(condition: Condition) -> str | None:
    match condition:
        case TypeIs() | Expression():
            return f"{condition.text} reads earlier steps" if condition.reads else None
        case AllOf(conditions) | AnyOf(conditions):
            return next((why for each in conditions if (why := _why_not_own(each))), None)
        case _:
            return f"{condition.text} is a Python function"


def split(condition: Condition | None) -> tuple[tuple[Condition, ...], tuple[Expr, ...]]:
    """The parts of a condition on the event alone, and those that also read earlier steps."""
    match condition:
        case None:
            return (), ()
        case AllOf(conditions):
            both = [split(each) for each in conditions]
            return sum((own for own, _ in both), ()), sum((earlier for _, earlier in both), ())
        case Expression(expr, source) if condition.reads:
            parts = conjuncts(expr)
            own = tuple(Expression(part, source) for part in parts if not steps_of(part))
            return own, tuple(part for part in parts if steps_of(part))
        case _:
            return (condition,), ()


@dataclass(frozen=True)
class _Test:
    """Events of some types that meet all other conditions get a bit."""

    conditions: tuple[Condition, ...]
    types: frozenset[str] | None
    row: int
    bit: int


class Program:
    """A compiled pattern: one attribute for each table that the compiled loop reads."""

    def __init__(self, spec: Spec, limit: int) -> None:
        self.steps = tuple(step for step in spec.steps if not step.negated)
        self._only = spec.only
        self.strict = any(step.op == "next" for step in spec.steps)
        self.columns: tuple[str, ...] = ()
        """The payload columns, and `ts`, that steps compare with each other."""
        self.numeric: set[str] = set()
        """Those of them that must be numbers; the others are only compared for equality."""
        self.pairs: set[tuple[str, str]] = set()
        """Columns that are compared for equality."""
        self.needs: dict[str, list[int]] = {}
        """For each column, the steps (as bits) whose events must have it: bound, forbidden."""
        tests: list[_Test] = []
        programs: list[tuple[int, int, int]] = []
        constants: list[float] = []
        self.take_at = np.zeros((2, len(self.steps)), np.int64)
        self.kill_at = np.zeros((2, len(self.steps)), np.int64)
        config = np.zeros(kernel.N_CONFIG, np.int64)
        places: dict[str, int] = {}
        state = 0
        for step in spec.steps:
            row = 1 if step.negated else 0
            earlier: list[Expr] = []
            for _, condition in step.takes:
                own, looking = split(condition)
                earlier += looking
                others = tuple(each for each in own if not _is_about_type(each))
                tests.append(_Test(others, _types(own), row, 1 << state))
            span = (self.kill_at if step.negated else self.take_at)[:, state]
            if earlier:
                self._compile(earlier, span, places, programs, constants)
                self._note_needs(earlier, row, 1 << state, places)
            if step.negated:
                continue
            if step.op == "next":
                config[kernel.STRICT] |= 1 << state
            places[step.name] = state
            state += 1
        self._spread_numbers()
        self._tests = tuple(tests)
        self._types: dict[tuple[str, ...], tuple[Ints, Flags, list[tuple[_Test, Flags]]]] = {}
        self.programs = np.array(programs, np.int64).reshape(-1, 3).T.copy()
        self.constants = np.array([*constants, 0.0])
        config[kernel.STEPS] = len(self.steps)
        config[kernel.WITHIN] = -1 if spec.within is None else spec.within
        config[kernel.UNIFORM] = not programs
        config[kernel.LIMIT] = limit
        self.config = config

    @cached_property
    def uniform(self) -> bool:
        """Whether no condition reads earlier steps."""
        return bool(self.config[kernel.UNIFORM])

    @cached_property
    def by_type_alone(self) -> bool:
        """Whether nothing but its type says which steps an event fits."""
        tests = any(test.conditions for test in self._tests)
        return not (tests or self.columns or self._only is not None)

    @cached_property
    def holds_back(self) -> bool:
        """Whether a match may have to wait until the window of an older run ends."""
        return not self.uniform and bool(self.config[kernel.WITHIN] >= 0)

    def read(self, batch: EventBatch) -> tuple[Ints, Ints]:
        """Which rows concern the pattern, and their two numbers."""
        tables, asked, others = self.by_type(batch.types)
        # Most events have types that no step asks for; only their codes are looked at.
        rows: Ints = asked.take(batch.codes).nonzero()[0]
        codes = batch.codes.take(rows)
        bits = tables.take(codes, axis=1)
        if not others and self._only is None:
            return rows, bits
        from betimes.patterns.columns import fulfil  # loads pyarrow.compute, which takes long

        for test, wanted in others:
            mine = np.flatnonzero(wanted[codes])
            for each in test.conditions:
                mine = mine[fulfil(each, batch, rows[mine])]
            bits[test.row, mine] |= test.bit
        if others and not self.strict:
            fits = np.flatnonzero(bits[0] | bits[1])
            rows, bits = rows[fits], bits[:, fits]
        if self._only is not None:
            seen = fulfil(self._only, batch, rows)
            rows, bits = rows[seen], bits[:, seen]
        return rows, bits

    def by_type(self, types: tuple[str, ...]) -> tuple[Ints, Flags, list[tuple[_Test, Flags]]]:
        """By the types of a batch: numbers, who is asked for, and what else has to be tested."""
        known = self._types.get(types)
        if known is None:
            tables = np.zeros((2, len(types)), np.int64)
            asked = np.full(len(types), self.strict)
            others = []
            for test in self._tests:
                wanted = np.array([test.types is None or t in test.types for t in types], bool)
                if test.conditions:
                    others.append((test, wanted))
                else:
                    tables[test.row, wanted] |= test.bit
                asked |= wanted
            if len(self._types) >= _ORDERS:
                self._types.clear()
            known = self._types[types] = tables, asked, others
        return known

    def name(self, at: int, event: Event) -> str:
        """The name under which a step binds an event: the first alternative that holds."""
        *others, (last, _) = self.steps[at].takes
        for name, condition in others:
            if condition is None or condition.holds(event, {}):
                return name
        return last

    def _compile(
        self,
        exprs: list[Expr],
        span: Ints,
        places: dict[str, int],
        programs: list[tuple[int, int, int]],
        constants: list[float],
    ) -> None:
        span[0] = len(programs)
        for op, value in _postfix(exprs[0] if len(exprs) == 1 else And(tuple(exprs))):
            match value:
                case Column(name):
                    programs.append((op, self._column(name), 0))
                case StepColumn(step, column):
                    programs.append((op, places[step], self._column(column)))
                case Literal(constant):
                    programs.append((op, len(constants), 0))
                    constants.append(np.nan if constant is None else float(constant))
                case _:
                    programs.append((op, 0, 0))
        span[1] = len(programs)

    def _note_needs(self, exprs: list[Expr], row: int, bit: int, places: dict[str, int]) -> None:
        """Record which events must have which columns, and of which kind."""
        for node, _ in walk(And(tuple(exprs))):
            match node:
                case Compare("==" | "!=", left, right):
                    names = [_name(side) for side in (left, right)]
                    if None not in names:
                        self.pairs.add((str(names[0]), str(names[1])))
                    else:
                        self.numeric.update(column for column in names if column is not None)
                case Column(name):
                    self.needs.setdefault(name, [0, 0])[row] |= bit
                case StepColumn(step, name):
                    self.needs.setdefault(name, [0, 0])[0] |= 1 << places[step]
                case Compare() | Arithmetic() | Negative() | Call() | In() | And() | Or() | Not():
                    operands = map(_name, children(node))
                    self.numeric.update(column for column in operands if column is not None)

    def _spread_numbers(self) -> None:
        """Both sides of an equality are kept alike: as numbers if one of them has to be."""
        numeric, pairs = self.numeric | {"ts"}, [pair for pair in self.pairs if len({*pair}) == 2]
        while alone := [pair for pair in pairs if len(numeric.intersection(pair)) == 1]:
            numeric.update(*alone)
        self.numeric = numeric.intersection(self.columns)

    def _column(self, name: str) -> int:
        if name not in self.columns:
            self.columns = (*self.columns, name)
        return self.columns.index(name)


def _name(expr: Expr) -> str | None:
    """The column, if it is one."""
    match expr:
        case Column(name) | StepColumn(_, name):
            return name
        case _:
            return None


def _is_about_type(condition: Condition) -> bool:
    """Whether it says which types an event may have, and nothing else."""
    match condition:
        case (
            TypeIs()
            | Expression(Compare("==", Column("type"), Literal(str())))
            | Expression(Compare("==", Literal(str()), Column("type")))
        ):
            return True
        case _:
            return False


def _types(conditions: tuple[Condition, ...]) -> frozenset[str] | None:
    known = [types for each in conditions if (types := types_for(each)) is not None]
    return frozenset.intersection(*known) if known else None


def _postfix(expr: Expr) -> Iterator[tuple[int, Expr | None]]:
    """Operations for a stack machine, operands first."""
    match expr:
        case Literal():
            yield kernel.CONSTANT, expr
        case Column():
            yield kernel.OWN, expr
        case StepColumn():
            yield kernel.EARLIER, expr
        case Arithmetic(op, left, right) | Compare(op, left, right):
            yield from _postfix(left)
            yield from _postfix(right)
            yield _OPS[op], None
        case And(parts) | Or(parts):
            joined = kernel.AND if isinstance(expr, And) else kernel.OR
            yield from _postfix(parts[0])
            for part in parts[1:]:
                yield from _postfix(part)
                yield joined, None
        case In(item, options):
            tests = tuple(Compare("==", item, option) for option in options)
            yield from _postfix(Or(tests) if len(tests) > 1 else tests[0])
        case Negative(operand):
            yield from _postfix(operand)
            yield kernel.MINUS, None
        case Not(operand):
            yield from _postfix(operand)
            yield kernel.NOT, None
        case IsNull(operand):
            yield from _postfix(operand)
            yield kernel.IS_NULL, None
        case Call(_, (operand,)):
            yield from _postfix(operand)
            yield kernel.ABSOLUTE, None
