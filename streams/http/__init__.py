"""What every HTTP server here shares: problem responses, and forwarding of requests."""
