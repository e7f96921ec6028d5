"""What the tables of all resources share: their declaration, pages, and values as JSON."""
