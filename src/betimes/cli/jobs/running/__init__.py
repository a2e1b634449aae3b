"""A job at work: in this process or on Spark, with its progress, restarts and stops."""
