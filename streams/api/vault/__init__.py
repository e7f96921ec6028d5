"""What the vault seals: rewrapping, and the erasure of a tenant."""
