"""Approvals: what a job asks a person, before it goes on."""
