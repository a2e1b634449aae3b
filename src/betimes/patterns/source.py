"""The text that a user wrote, and error messages that point into it."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.patterns.steps import PatternError

Span = tuple[int, int]
"""The position of a part in its source: from this character up to, but not including, that one."""


@dataclass(frozen=True)
class SourceText:
    """A text and the name of the option it came from (`where`, `define['A']`).

    >>> print(SourceText("A.v > > 5", "where").error("expected a value, got '>'", (6, 7)))
    cannot read where
      A.v > > 5
            ^
    expected a value, got '>'
    """

    text: str
    what: str

    def error(self, message: str, span: Span, doing: str = "read") -> PatternError:
        """An error that shows the line, marks the position below it, and says what is wrong."""
        start, end = span
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", start)
        line = self.text[first : len(self.text) if last < 0 else last]
        # Keep tabs, so that the marks line up with the text above them.
        indent = "".join("\t" if letter == "\t" else " " for letter in line[: start - first])
        marks = "^" * max(1, min(end - start, len(line) - (start - first)))
        return PatternError(f"cannot {doing} {self.what}\n  {line}\n  {indent}{marks}\n{message}")
