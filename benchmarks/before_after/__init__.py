"""The speed of two commits side by side; see `__main__`."""
