"""`betimes calibrate`: how long each detector of a job should wait, written to a file."""
