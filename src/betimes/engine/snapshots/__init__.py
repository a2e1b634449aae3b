"""Snapshots: copies of state, how many of them, and the segments of events between them."""
