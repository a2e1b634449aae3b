"""What happens when there is too much to do; see `__main__`."""
