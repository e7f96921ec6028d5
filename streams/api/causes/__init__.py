"""Causes: dead letters of one kind of failure together, and what people decided about them."""
