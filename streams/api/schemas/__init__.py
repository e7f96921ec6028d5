"""A read-only schema registry for readers of the topics."""
