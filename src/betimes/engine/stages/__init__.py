"""Stages: one driver, and a tactic for each way of handling events."""
