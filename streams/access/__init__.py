"""Who calls the API and what they may do: principals, permissions, roles and tokens."""
