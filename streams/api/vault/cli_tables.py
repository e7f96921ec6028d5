"""What `tidegate vault ...` and `tidegate tenants erase` print for people."""

from __future__ import annotations

from streams.cli.cells import Json, tell


def rewrapped(found: Json) -> None:
    """What was sealed again, and what no known key opens."""
    counts = f"{found['data_keys']} data keys, {found['sources']} sources"
    counts += f", {found['endpoints']} endpoints; {found['unchanged']} were already"
    tell(f"sealed again under {found['key_id']}: {counts}")
    for name in found["unreadable"]:
        tell(f"no known key opens {name}: name its key, too, and type this again")


def erased(found: Json) -> None:
    """What was destroyed."""
    counts = f"{found['data_keys']} data keys, {found['sources']} sources"
    counts += f" and {found['endpoints']} endpoints are destroyed"
    tell(f"tenant {found['tenant_id']} is erased since {found['erased_at']}: {counts}")
