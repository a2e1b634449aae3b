"""What a job reads and writes: sources of rows, sinks for changes."""
