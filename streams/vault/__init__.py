"""Keys: of the deployment, of each tenant's bodies, and where a process finds them."""
