"""Workflows: jobs and the jobs that they asked for."""
