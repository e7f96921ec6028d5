"""What `tidegate events duplicates` prints for people."""

from __future__ import annotations

from streams.cli.lists import page

duplicates = page(
    "duplicates",
    (
        *("count", "event_type", "source", "tenant_id"),
        *("last_at", "first_at", "last_event_id", "fingerprint"),
    ),
)
