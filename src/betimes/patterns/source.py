"""What a user wrote, and messages that point at the place in it."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.patterns.steps import PatternError

Span = tuple[int, int]
"""Where a part stands in its source: from this character up to, not including, that one."""


@dataclass(frozen=True)
class SourceText:
    """A text and what it is called (`where`, `define['A']`).

    >>> print(SourceText("A.v > > 5", "where").error("expected a value, got '>'", (6, 7)))
    cannot read where
      A.v > > 5
            ^
    expected a value, got '>'
    """

    text: str
    what: str

    def error(self, message: str, span: Span, doing: str = "read") -> PatternError:
        """An error that shows the line, marks the place below it, and says what is wrong."""
        start, end = span
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", start)
        line = self.text[first : len(self.text) if last < 0 else last]
        # A tab is as wide below as it is above.
        indent = "".join("\t" if letter == "\t" else " " for letter in line[: start - first])
        marks = "^" * max(1, min(end - start, len(line) - (start - first)))
        return PatternError(f"cannot {doing} {self.what}\n  {line}\n  {indent}{marks}\n{message}")
