"""Workflows: the tree of jobs that one job asked for."""
