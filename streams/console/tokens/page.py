"""The page of tokens."""

from __future__ import annotations

from streams.console.serving.page import Pages

pages = Pages("tokens")

pages.list("/console/tokens", "/v1/tokens", "Tokens", "tenants")
