"""What `tidegate audit ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json
from streams.cli.lists import page


def _row(entry: Json) -> Json:
    """An entry; of a refusal with its reason, else with the person's note."""
    why = f"{entry['reason']}: {entry['detail']}" if entry["detail"] else entry["note"]
    return {**entry, "status": entry["outcome"], "detail": why}


entries = page(
    "audit",
    ("at", "principal", "verb", "target", "status", "detail", "tenant_id", "request_id"),
    _row,
)
