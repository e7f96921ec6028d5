"""Keys: of the deployment and of each tenant's bodies, and where a process finds them."""
