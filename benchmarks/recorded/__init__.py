"""Runs whose every row is recorded, to compare two commits; see `__main__`."""
