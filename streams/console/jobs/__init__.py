"""Jobs: the list with its filters, and one job with all that happened to it."""
