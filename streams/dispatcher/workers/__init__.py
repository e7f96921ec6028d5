"""The workers that one partition knows: their credits, their silence, their leases."""
