"""How much of each tenant's rate this process gives."""
