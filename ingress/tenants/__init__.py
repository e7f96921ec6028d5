"""Whose a webhook is, and under which secrets it may come."""
