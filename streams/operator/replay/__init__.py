"""What failed goes in again, once."""
