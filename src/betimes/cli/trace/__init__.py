"""`betimes trace`: one ordering unit at work, arrival by arrival."""
