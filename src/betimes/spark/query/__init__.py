"""What users call: detect, write and read changes, with everything that runs on the driver."""
