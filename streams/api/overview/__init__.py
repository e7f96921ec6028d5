"""The overview: where the flow stands, what waits for a person, and the last hour by minute."""
