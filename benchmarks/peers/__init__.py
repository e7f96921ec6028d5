"""What a team would pick instead, on the same work and under the same kills: `python -m peers`."""
