"""What every HTTP server here shares: problems, and passing a request on."""
