"""Columns of text, compiled: each row is a piece of text, then numbers with text between them.

Almost everything that an engine writes has this form: `hit at 17`, `{"key":3,"force":40}`. So
columns of text are written without a Python object for any row.
"""

from betimes.model.kernel.spelling import LONGEST, spell

__all__ = ["LONGEST", "spell"]
