"""The job file: its tables and keys, and everything that can be wrong with them."""
