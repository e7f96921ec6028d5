"""The performance: what is delivered, what is killed, and when."""
