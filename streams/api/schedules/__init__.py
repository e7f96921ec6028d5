"""Schedules: jobs that are made by the clock."""
