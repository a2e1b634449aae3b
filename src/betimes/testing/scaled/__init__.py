"""A hierarchy as large as the one in the papers, and a stream for it."""

from betimes.testing.scaled.hierarchy import scaled_hierarchy
from betimes.testing.scaled.stream import scaled_stream

__all__ = ["scaled_hierarchy", "scaled_stream"]
