"""What `tidegate sources ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, tell
from streams.cli.lists import page


def disabled_source(found: Json) -> None:
    what = f"source {found['source']} of tenant {found['tenant_id']}"
    tell(f"{what} is disabled: its deliveries are refused, and its secrets are deleted")


sources = page(
    "sources", ("tenant_id", "source", "disabled", "scheme", "secrets", "updated_at", "mapping")
)
