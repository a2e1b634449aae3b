"""Transactions: events of one stateful operator that commit in order, however they run."""

from betimes.transactions.effects import StateError
from betimes.transactions.operator import Transactional, transactional

__all__ = ["StateError", "Transactional", "transactional"]
