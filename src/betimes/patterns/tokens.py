"""The tokens of an expression."""

from __future__ import annotations

import re
from typing import Literal as Choice
from typing import NamedTuple

from betimes.model.duration import microseconds
from betimes.model.errors import OptionError
from betimes.patterns.source import SourceText, Span

_PARTS = re.compile(
    r"""(?P<blank>\s+)
    |(?P<number>(?:\d+(?:_\d+)*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>[^\W\d]\w*)?
    |(?P<word>[^\W\d]\w*)
    |`(?P<name>(?:[^`]|``)+)`
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<wrong>===|<>|\*\*|&&?|\|\|?|=(?!=)|!(?!=))
    |(?P<op>==|!=|<=|>=|//|[-+*/%<>(),.\[\]])
    """,
    re.VERBOSE,
)
_INSTEAD = {
    "=": "==",
    "===": "==",
    "<>": "!=",
    "&": "and",
    "&&": "and",
    "|": "or",
    "||": "or",
    "!": "not",
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


class Token(NamedTuple):
    """A number, text, a word, a name in backticks, an operator, or the end."""

    kind: Choice["number", "text", "word", "name", "op", "end"]
    text: str
    """The token as written."""
    value: int | float | str | None
    """The value of a number or of text, or the name without its backticks."""
    start: int
    end: int

    @property
    def span(self) -> Span:
        return (self.start, self.end)

    @property
    def name(self) -> str:
        return str(self.value)

    def is_(self, *texts: str) -> bool:
        """Whether it is one of these words or operators."""
        return self.kind in ("word", "op") and self.text in texts


def tokens(source: SourceText) -> list[Token]:
    """Split a source into tokens; the last one is the end.

    >>> [token.text for token in tokens(SourceText("A.v>= 2s", "where"))]
    ['A', '.', 'v', '>=', '2s', '']
    """
    text, at = source.text, 0
    found = []
    while at < len(text):
        match = _PARTS.match(text, at)
        if match is None:
            raise _unreadable(source, at)
        if match.lastgroup != "blank":
            found.append(_token(source, match))
        at = match.end()
    return [*found, Token("end", "", None, len(text), len(text))]


def _token(source: SourceText, match: re.Match[str]) -> Token:
    text, span = match[0], match.span()
    match match.lastgroup:
        case "number" | "unit":
            return Token("number", text, _number(source, match), *span)
        case "text":
            return Token("text", text, _text(source, match), *span)
        case "name":
            return Token("name", text, match["name"].replace("``", "`"), *span)
        case "wrong" if text in _INSTEAD:
            raise source.error(f"expected {_INSTEAD[text]!r}, got {text!r}", span)
        case "wrong":
            raise source.error(f"expected one of + - * / // %, got {text!r}", span)
        case "word":
            return Token("word", text, text, *span)
        case _:
            return Token("op", text, None, *span)


def _number(source: SourceText, match: re.Match[str]) -> int | float:
    try:
        if match["unit"] is not None:
            return microseconds(match[0])
        return int(match[0]) if match[0].replace("_", "").isdigit() else float(match[0])
    except OptionError:
        raise source.error(
            f"expected a number or a duration such as 150ms, 2s, 1min, 1h, 1d, got {match[0]!r}",
            match.span(),
        ) from None
    except ValueError:
        raise source.error("expected a shorter number", match.span()) from None


def _text(source: SourceText, match: re.Match[str]) -> str:
    def letter(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPES:
            start = match.start() + 1 + escape.start()
            raise source.error(
                rf"expected one of \n \t \\ \' \" in text, got {escape[0]}; a backslash is \\",
                (start, start + 2),
            )
        return _ESCAPES[escape[1]]

    return _ESCAPE.sub(letter, match[0][1:-1])


def _unreadable(source: SourceText, at: int) -> Exception:
    sign = source.text[at]
    if sign in "'\"":
        return source.error(f"expected the text to end with {sign}", (at, len(source.text)))
    if sign == "`":
        return source.error("expected a name between two backticks", (at, len(source.text)))
    return source.error(f"expected a value or an operator, got {sign!r}", (at, at + 1))
