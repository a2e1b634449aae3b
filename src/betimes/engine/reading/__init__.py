"""Batches of input events as stages read them."""
