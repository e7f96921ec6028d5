"""The operator's stage: a read model folded from the topics, and the API over it."""
