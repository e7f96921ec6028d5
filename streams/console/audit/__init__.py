"""The audit: who did what, when and why."""
