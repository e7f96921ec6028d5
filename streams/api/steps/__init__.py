"""Finished steps of jobs, and decisions about those that diverged."""
