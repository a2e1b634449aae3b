"""Patterns: say what to look for instead of programming it.

`pattern` reads a pattern from text, `begin` builds one step by step. Both return a `Pattern`, which
you add to a hierarchy with `Hierarchy.add` like any detector.
"""

from betimes.patterns.builder import Builder, begin
from betimes.patterns.growth import PatternWarning
from betimes.patterns.pattern import Pattern, pattern
from betimes.patterns.steps import PatternError

__all__ = ["Builder", "Pattern", "PatternError", "PatternWarning", "begin", "pattern"]
