"""`betimes demo`: what waiting costs, and what not waiting does, in tables and pictures."""
