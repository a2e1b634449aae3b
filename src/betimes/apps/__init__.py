"""Applications built on betimes: `soccer`, a match seen by a real-time locating system."""
