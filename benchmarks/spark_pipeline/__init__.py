"""What the pipeline on Spark costs; see `__main__`."""
