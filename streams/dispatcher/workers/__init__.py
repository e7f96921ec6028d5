"""The workers: who is connected, with which credits, and what leases they have of one partition."""
