"""Transactions: events of one stateful operator that commit in order, however they run."""

from betimes.transactions.effects import StateError
from betimes.transactions.operator import Transactional, transactional
from betimes.transactions.predictors import horizon

__all__ = ["StateError", "Transactional", "horizon", "transactional"]
