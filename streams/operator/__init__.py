"""The operator's process: a read model folded from the topics, and the API over it."""
