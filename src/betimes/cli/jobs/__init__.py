"""Jobs: the job file, its sources and sinks, and how a job runs."""
