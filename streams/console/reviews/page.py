"""The page of effects that nobody knows the outcome of."""

from __future__ import annotations

from streams.console.serving.page import Pages

pages = Pages("reviews")

pages.list("/console/reviews", "/v1/effects/unknown", "Reviews", "ledger", "jobs")
