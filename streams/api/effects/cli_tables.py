"""What `tidegate effects ...` prints for people."""

from __future__ import annotations

from streams.cli.lists import page

effects = page(
    "effects",
    ("status", "action", "tenant_id", "began_at", "job_id", "claims", "error"),
)
