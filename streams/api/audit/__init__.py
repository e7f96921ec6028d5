"""What was done and refused through the API, and at whose wish."""
