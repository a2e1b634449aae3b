"""What speculation gains and costs; see `__main__`."""
