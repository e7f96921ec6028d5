"""The page of the audit."""

from __future__ import annotations

from streams.console.serving.page import Pages

pages = Pages("audit")

pages.list("/console/audit", "/v1/audit", "Audit", "audit")
