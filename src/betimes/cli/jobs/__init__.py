"""Jobs: what `betimes run` reads from a job file, and how it is run."""
