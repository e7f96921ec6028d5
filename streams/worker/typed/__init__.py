"""Typed handlers: what their annotations say, and the checks of input and result by it."""
