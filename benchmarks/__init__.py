"""What betimes costs, measured; `README.md` says what the figures mean."""
