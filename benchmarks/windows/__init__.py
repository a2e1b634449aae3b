"""Windows: aggregates without Python, and a heavy operator that many instances share."""
