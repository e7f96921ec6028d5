"""Artifacts: the files that jobs have saved."""
