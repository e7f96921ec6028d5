"""The operator's API: one module for each resource, and what all calls share."""
