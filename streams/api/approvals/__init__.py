"""Approvals: what jobs ask of people."""
