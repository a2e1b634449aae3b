"""What stages tell each other: outputs, retractions, confirmations."""
