"""Parses the text of a pattern into steps that have names, but no conditions yet.

pattern      steps, separated by blanks, `-` or `...`
step         name, alternatives or group, each with or without a quantifier
alternatives (A|B)
group        (A B)
negation     !A or !(A|B)
quantifier   + * ? {3} {2,4} {2,}; reluctant if followed by another ?
name         letters, digits and _ (not starting with a digit), or anything in backticks
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from betimes.patterns.source import SourceText, Span
from betimes.patterns.steps import Op, Step
from betimes.patterns.syntax import written

_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"([^\W\d]\w*)|`((?:[^`]|``)+)`")
_CHOICE = re.compile(rf"\s*(?:{_NAME.pattern})\s*\|")
_FOLLOWS: dict[str, Op] = {"": "followed_by", "-": "next", "...": "followed_by_any"}
_NEGATED: dict[Op, Op] = {"followed_by": "not_followed_by", "next": "not_next"}
_BRACES = re.compile(r"\{\s*(\d{1,6})\s*(?:(,)\s*(\d{0,6})\s*)?\}")
_QUANTIFIERS = ("+", "*", "?", "{")
_DEEPEST = 40
"""Depth of nested groups. Far more than anyone writes, and far below Python's recursion limit."""


def skeleton(text: str, *, ends: bool = False) -> tuple[Step, ...]:
    """The steps of a pattern, each with its operator, names and quantifier.

    `ends` says whether the pattern has a window, so that it may end with `!B`.

    >>> for step in skeleton("A !B C{2,4}"):
    ...     print(step.op, step.name, step.least, step.most)
    begin A 1 1
    not_followed_by !B 1 1
    followed_by C 2 4
    """
    reader = _Reader(SourceText(text, "pattern"))
    steps = reader.whole()
    if steps[-1].op == "not_followed_by" and not ends:
        reader.fail(
            f"expected within, such as within='2s', because the pattern ends with "
            f"{steps[-1].name!r}, which needs a window",
            reader.negation_at,
        )
    return steps


class _Reader:
    """Recursive descent over the characters."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.depth = 0
        self.negation_at: Span = (0, 0)
        """The position of the last negated step."""
        self.taken: dict[str, Span] = {}
        """The position of each name that binds events."""

    def whole(self) -> tuple[Step, ...]:
        steps = self.sequence("a pattern")
        if self.at < len(self.text):
            self.fail(
                "expected '(' somewhere before this ')'"
                if self.sees(")")
                else "expected alternatives in parentheses, as in (A|B)"
            )
        return steps

    def sequence(self, what: str) -> tuple[Step, ...]:
        """Steps up to the end, a `)` or a `|`."""
        steps: list[Step] = []
        while True:
            self.blanks()
            start = self.at
            sign = "..." if self.took("...") else "-" if self.took("-") else ""
            if sign and not steps:
                self.fail(f"expected {what} to begin with a step, got {sign!r}", (start, self.at))
            self.blanks()
            if not self.rest or self.rest[0] in ")|":
                if sign or not steps:
                    after = f" after {sign!r}" if sign else ""
                    self.fail(f"expected a step{after}, got {self.got()}")
                return tuple(steps)
            steps.append(self.step(_FOLLOWS[sign] if steps else "begin", what))

    def step(self, op: Op, what: str) -> Step:
        start = self.at
        if self.took("!"):
            return self.negation(op, what, start)
        if self.took("("):
            step = self.parenthesis(op, start)
        else:
            name, span = self.name("a step")
            self.take(name, span)
            step = Step(op, name, takes=((name, None),))
        return self.quantified(step)

    def negation(self, op: Op, what: str, start: int) -> Step:
        if op == "begin":
            self.fail(
                f"expected {what} to begin with a step that binds an event, got '!'; "
                "put a negated step after it",
                (start, start + 1),
            )
        if op == "followed_by_any":
            self.fail("expected a step after '...', got '!'", (start, start + 1))
        if self.took("("):
            names = [name for name, _ in self.alternatives()]
            self.close("'|' or ')', as in !(A|B)")
        else:
            names = [self.name("a name or (A|B) after '!'")[0]]
        self.negation_at = (start, self.at)
        label = self.label(names)
        if self.rest[:1] in _QUANTIFIERS:
            self.fail(f"expected no quantifier after {'!' + label!r}, which allows no such event")
        takes = tuple((name, None) for name in names)
        return Step(_NEGATED[op], "!" + label, takes=takes)

    def label(self, names: list[str]) -> str:
        each = "|".join(map(written, names))
        return names[0] if len(names) == 1 else f"({each})"

    def parenthesis(self, op: Op, start: int) -> Step:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail("expected fewer nested groups", (start, self.at))
        if _CHOICE.match(self.text, self.at):
            step = self.choice(op)
        else:
            steps = self.sequence("a group")
            self.close("')'; alternatives are single names, as in (A|B)")
            self.check_end(steps[-1], start)
            label = self.text[start : self.at]
            alone = len(steps) == 1
            step = replace(steps[0], op=op) if alone else Step(op, label, group=steps)
        self.depth -= 1
        return step

    def choice(self, op: Op) -> Step:
        names = self.alternatives()
        for name, span in names:
            self.take(name, span)
        self.close("'|' or ')', as in (A|B)")
        label = "|".join(name for name, _ in names)
        return Step(op, label, takes=tuple((name, None) for name, _ in names))

    def alternatives(self) -> list[tuple[str, Span]]:
        names = []
        while True:
            self.blanks()
            names.append(self.name("a name, as in (A|B)"))
            self.blanks()
            if not self.took("|"):
                return names

    def check_end(self, last: Step, start: int) -> None:
        if last.negated:
            self.fail(
                f"expected a group to end with a step that binds an event, got {last.name!r}; "
                "put it after the group",
                (start, self.at),
            )

    def quantified(self, step: Step) -> Step:
        start = self.at
        counts = self.counts(start)
        if counts is None:
            return step
        least, most = counts
        reluctant = self.took("?")
        if self.rest[:1] in _QUANTIFIERS:
            self.fail(f"expected one quantifier, got another after {self.text[start : self.at]!r}")
        if step.repeated or step.optional:  # as in (A+){2}, where the inside repeats, too
            step = Step(step.op, f"({step.name})", group=(replace(step, op="begin"),))
        return replace(
            step,
            least=max(least, 1),
            most=most,
            optional=least == 0,
            greedy=least != most and most != 1 and not reluctant,
        )

    def counts(self, start: int) -> tuple[int, int | None] | None:
        """The least and most number of events; None if there is no quantifier."""
        if self.took("+"):
            return 1, None
        if self.took("*"):
            return 0, None
        if self.took("?"):
            return 0, 1
        if not self.sees("{"):
            return None
        match = _BRACES.match(self.text, self.at)
        if match is None:
            self.fail("expected a quantifier such as {3}, {2,4} or {2,}")
        self.at = match.end()
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else None
        if most == 0 or (most is not None and most < least):
            self.fail(
                f"expected the upper limit to be {max(least, 1)} or more, got {match[0]}",
                (start, self.at),
            )
        return least, most

    def take(self, name: str, span: Span) -> None:
        """Remember a name that binds events."""
        if name in self.taken:
            self.fail(
                f"expected a different name for each step, got {name!r} twice; call this one "
                f"{name + '2'!r}, and define it with "
                f'define={{"{name}2": "type == {name!r}"}}',
                span,
            )
        self.taken[name] = span

    def name(self, expected: str) -> tuple[str, Span]:
        match = _NAME.match(self.text, self.at)
        if match is None:
            hint = (
                "; put a quantifier directly after its step, without a blank"
                if self.rest[:1] in _QUANTIFIERS
                else ""
            )
            self.fail(
                f"expected {expected}, got {self.got()}{hint}; put names that have anything but "
                "letters, digits and _ in backticks"
            )
        self.at = match.end()
        return match[1] or match[2].replace("``", "`"), match.span()

    def close(self, expected: str) -> None:
        self.blanks()
        if not self.took(")"):
            self.fail(f"expected {expected}, got {self.got()}")

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def sees(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def took(self, sign: str) -> bool:
        found = self.sees(sign)
        self.at += len(sign) * found
        return found

    def blanks(self) -> None:
        match = _BLANKS.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def got(self) -> str:
        return repr(self.rest[0]) if self.rest else "the end"

    def fail(self, message: str, span: Span | None = None) -> NoReturn:
        raise self.source.error(message, span or (self.at, self.at + 1))
