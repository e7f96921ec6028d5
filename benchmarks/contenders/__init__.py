"""Other ways to do what the dedup stage does, to measure it against."""
