"""Takes one webhook from its bytes to its two durable records."""
