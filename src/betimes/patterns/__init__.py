"""Patterns: say what to look for instead of programming it."""
