"""`betimes submit`: a job file on a cluster."""
