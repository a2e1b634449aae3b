"""How a query is doing: counts and readings on their way to the driver, and who listens there."""
