r"""A small expression language for conditions, with its own parser: nothing is `eval`ed.

    v > 5 and (player == A.player or ts - A.ts < 150ms)

* **Values**: numbers, durations (`2s`, `150ms`: whole microseconds, as `ts` is), text in single
  or double quotes, `True`, `False`, `null` (or `None`).
* **Columns**: `v` is a column of the event being tested, the candidate; `type` and `ts` are its
  type and time. `A.v` is a column of the event bound to step `A`, or of the last one if there are
  several. In the condition of step `A` itself, `A.v` is the candidate's. Put names that are not
  plain in backticks: `` `heart rate` ``, `` `my step`.v ``.
* **Aggregates** over all events bound to a step so far: `first last sum avg min max` of `B.v`,
  `count(B)`, and `count(B.v)`, which counts those that are not null. They include the earlier
  iterations of the step being matched, but not the candidate.
* `+ - * / // %`, `== != < <= > >=` (also chained: `1 < v <= 5`), `x in (1, 2)`, `'ab' in name`,
  `x not in ...`, `x between 1 and 5` (both included), `x is null`, `x is not null`, `and or not`.
* **Functions**: `startswith(s, prefix)`, `endswith(s, suffix)`, `contains(s, part)`, `lower(s)`,
  `upper(s)`, `len(s)`, `abs(x)`.

**Null.** None and NaN are null, an unknown value. As in SQL, arithmetic, comparisons and
functions of null are null, and so is `not null`; `null and False` is False, `null or True` is
True, otherwise `and` and `or` with null are null; `x in (...)` is null if `x` is, or if it is not
found but one of the options is null. A condition that is null does not hold. `x is null` is always
true or false. `A.v` is null if nothing is bound to `A`. Dividing by zero gives null. Aggregates
ignore nulls, except `first` and `last`, which return the value of that event; `sum` and `count` of
nothing are 0, the others null.

**Errors.** A column that an event does not have is an error, not null. So are text compared with a
number (also by `==`), arithmetic with text, and text where a condition is expected. As numbers,
booleans are 0 and 1; as conditions, numbers are true unless 0. `and` and `or` are evaluated from
left to right and stop as soon as the answer is known, so `type == 'ball' and a > 5` never looks for
`a` in another type of event.

>>> parse("A.v <= 2s")
Compare(op='<=', left=StepColumn(step='A', column='v'), right=Literal(value=2000000))
>>> parse("v > 5 and")
Traceback (most recent call last):
...
betimes.patterns.steps.PatternError: cannot read where
  v > 5 and
           ^
expected a value after 'and', got the end
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from betimes.model.hints import did_you_mean
from betimes.patterns.kinds import ARGUMENTS, check_kinds
from betimes.patterns.source import SourceText, Span
from betimes.patterns.steps import PatternError
from betimes.patterns.syntax import (
    AGGREGATES,
    FUNCTIONS,
    KEYWORDS,
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
    columns_of,
    steps_of,
    types_of,
    walk,
)
from betimes.patterns.tokens import Token, tokens

__all__ = ["columns_of", "parse", "steps_of", "types_of"]

_DEEPEST = 40
"""Depth of nested parentheses. Far more than anyone writes, and below Python's recursion limit."""
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_LEVELS = (("+", "-"), ("*", "/", "//", "%"))
_WORDS = {"null": None, "None": None, "true": True, "True": True, "false": False, "False": False}


def parse(text: str, what: str = "where") -> Expr:
    """Parse an expression; `what` is its name in errors."""
    if not isinstance(text, str):
        raise PatternError(f"expected {what} to be an expression as text, got {what}={text!r}")
    source = SourceText(text, what)
    parser = _Parser(source)
    expr = parser.whole()
    for node, depth in walk(expr):
        if depth > 3 * _DEEPEST:
            raise source.error("expected a smaller expression; split it", node.span)
    check_kinds(expr, source)
    return expr


class _Parser:
    """Recursive descent, one method per level of precedence, the lowest first."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.tokens = tokens(source)
        self.at = 0
        self.depth = 0

    def whole(self) -> Expr:
        expr = self.either()
        if self.now.kind != "end":
            raise self.unexpected("'and', 'or', an operator or the end")
        return expr

    def either(self) -> Expr:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail("expected fewer nested parentheses; split the expression")
        parts = [self.both()]
        while self.took("or"):
            parts.append(self.both())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts), span=_span(parts))

    def both(self) -> Expr:
        parts = [self.inverse()]
        while self.took("and"):
            parts.append(self.inverse())
        return parts[0] if len(parts) == 1 else And(tuple(parts), span=_span(parts))

    def inverse(self) -> Expr:
        start, times = self.now.start, 0
        while self.took("not"):
            times += 1
        expr = self.comparison()
        for _ in range(times):
            expr = Not(expr, span=(start, expr.span[1]))
        return expr

    def comparison(self) -> Expr:
        left = self.arithmetic(0)
        negated = self.now.is_("not") and self.tokens[self.at + 1].is_("in", "between")
        if negated:
            self.at += 1
        if self.took("in"):
            return self.inverted(negated, self.membership(left))
        if self.took("between"):
            return self.inverted(negated, self.between(left))
        if self.took("is"):
            return self.inverted(self.took("not"), self.null(left))
        return self.chain(left)

    def inverted(self, negated: bool, expr: Expr) -> Expr:
        return Not(expr, span=expr.span) if negated else expr

    def chain(self, first: Expr) -> Expr:
        links: list[Expr] = []
        left = first
        while self.now.is_(*_COMPARISONS):
            op: Any = self.advance().text
            right = self.arithmetic(0)
            links.append(Compare(op, left, right, span=_span([left, right])))
            left = right
        if len(links) > 1:
            return And(tuple(links), span=_span(links))
        return links[0] if links else first

    def membership(self, item: Expr) -> Expr:
        close = {"(": ")", "[": "]"}.get(self.now.text) if self.now.kind == "op" else None
        if close is None:
            text = self.arithmetic(0)
            return Call("contains", (text, item), span=_span([item, text]))
        self.at += 1
        options: list[Expr] = []
        while not (options and self.now.is_(close)):
            options.append(self.either())
            if not self.took(","):
                break
        end = self.expect(close, f"',' or {close!r}").end
        return In(item, tuple(options), span=(item.span[0], end))

    def between(self, item: Expr) -> Expr:
        low = self.arithmetic(0)
        self.expect("and", "'and', as in v between 1 and 5")
        high = self.arithmetic(0)
        span = _span([item, high])
        return And(
            (Compare(">=", item, low, span=span), Compare("<=", item, high, span=span)), span=span
        )

    def null(self, operand: Expr) -> Expr:
        if not self.now.is_("null", "None"):
            raise self.unexpected("null, as in v is null; compare values with ==")
        return IsNull(operand, span=(operand.span[0], self.advance().end))

    def arithmetic(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self.sign()
        left = self.arithmetic(level + 1)
        while self.now.is_(*_LEVELS[level]):
            op: Any = self.advance().text
            right = self.arithmetic(level + 1)
            left = Arithmetic(op, left, right, span=_span([left, right]))
        return left

    def sign(self) -> Expr:
        start, times = self.now.start, 0
        while self.took("-"):
            times += 1
        expr = self.value()
        for _ in range(times):
            span = (start, expr.span[1])
            if isinstance(expr, Literal) and type(expr.value) in (int, float):
                expr = Literal(-cast(float, expr.value), span=span)
            else:
                expr = Negative(expr, span=span)
        return expr

    def value(self) -> Expr:
        token = self.now
        if token.kind in ("number", "text"):
            return Literal(self.advance().value, span=token.span)
        if token.kind == "word" and token.text in _WORDS:
            return Literal(_WORDS[self.advance().text], span=token.span)
        if token.is_("("):
            return self.parenthesis()
        if token.kind != "name" and not (token.kind == "word" and token.text not in KEYWORDS):
            raise self.unexpected(f"a value{self.after()}")
        if token.kind == "word" and self.tokens[self.at + 1].is_("("):
            return self.call()
        return self.column()

    def parenthesis(self) -> Expr:
        start = self.advance().start
        expr = self.either()
        end = self.expect(")", "an operator or ')'").end
        return replace(expr, span=(start, end))

    def column(self) -> Expr:
        token = self.advance()
        if not self.took("."):
            return Column(token.name, span=token.span)
        column = self.name("a column after the '.'")
        if self.now.is_("."):
            raise self.unexpected(
                "one '.' between step and column; put a name that contains a '.' in backticks"
            )
        return StepColumn(token.name, column.name, span=(token.start, column.end))

    def name(self, expected: str) -> Token:
        if self.now.kind == "name" or (self.now.kind == "word" and self.now.text not in KEYWORDS):
            return self.advance()
        raise self.unexpected(expected)

    def call(self) -> Expr:
        token = self.advance()
        self.at += 1
        if token.text in AGGREGATES:
            return self.aggregate(token)
        if token.text not in FUNCTIONS:
            known = [*AGGREGATES, *FUNCTIONS]
            raise self.source.error(
                f"expected one of the functions {', '.join(known)}, got {token.text!r}"
                + did_you_mean(token.text, known),
                token.span,
            )
        arguments = [self.either()]
        while self.took(","):
            arguments.append(self.either())
        end = self.expect(")", "',' or ')'").end
        wanted = ARGUMENTS[token.text]
        if len(arguments) != len(wanted):
            raise self.source.error(
                f"expected {token.text}({', '.join(wanted)}), got {len(arguments)} instead of "
                f"{len(wanted)} values",
                (token.start, end),
            )
        return Call(token.text, tuple(arguments), span=(token.start, end))

    def aggregate(self, token: Token) -> Expr:
        function: Any = token.text
        example = "count(B) or count(B.v)" if function == "count" else f"{function}(B.v)"
        step = self.name(f"a step, as in {example}")
        column = self.name("a column after the '.'").name if self.took(".") else None
        if column is None and function != "count":
            raise self.unexpected(f"a step and its column, as in {example}")
        end = self.expect(")", f"')', as in {example}").end
        return Aggregate(function, step.name, column, span=(token.start, end))

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def advance(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def took(self, text: str) -> bool:
        found = self.now.is_(text)
        self.at += found
        return found

    def expect(self, text: str, expected: str) -> Token:
        if not self.now.is_(text):
            raise self.unexpected(expected)
        return self.advance()

    def after(self) -> str:
        before = self.tokens[self.at - 1] if self.at else None
        return f" after {before.text!r}" if before else ""

    def unexpected(self, expected: str) -> PatternError:
        token = self.now
        got = "the end" if token.kind == "end" else repr(token.text)
        hint = ""
        if token.text.lower() in KEYWORDS and token.text not in KEYWORDS:
            hint = f"; write {token.text.lower()!r} in lower case"
        elif token.kind == "word" and token.text in KEYWORDS:
            hint = "; if it is a name, put it in backticks"
        return self.fail(f"expected {expected}, got {got}{hint}")

    def fail(self, message: str) -> PatternError:
        return self.source.error(message, self.now.span)


def _span(parts: list[Expr]) -> Span:
    return (parts[0].span[0], parts[-1].span[1])
