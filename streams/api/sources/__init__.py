"""Sources: vendors' connections of a tenant."""
