"""What speculation wins and costs; see `__main__`."""
