"""`betimes simulate`: streams made from a seed, written to files."""
