"""Patterns: say what to look for instead of programming it.

`pattern` reads a pattern as text, `begin` starts one step by step; both make a `Pattern`, which
`Hierarchy.add` takes like any detector.
"""

from betimes.patterns.builder import Builder, begin
from betimes.patterns.growth import PatternWarning
from betimes.patterns.pattern import Pattern, pattern
from betimes.patterns.steps import PatternError

__all__ = ["Builder", "Pattern", "PatternError", "PatternWarning", "begin", "pattern"]
