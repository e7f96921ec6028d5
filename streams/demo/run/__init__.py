"""The run of a demo: what is delivered, what is killed, and when."""
