"""The operator's API: the calls, and what they share."""
