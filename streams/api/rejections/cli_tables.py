"""What `tidegate rejections ...` prints for people."""

from __future__ import annotations

from streams.cli.lists import page

rejections = page(
    "rejections", ("count", "reason", "cause", "source", "tenant_id", "last_at", "first_at")
)
