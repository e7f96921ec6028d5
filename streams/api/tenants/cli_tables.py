"""What `tidegate tenants ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import page


def tenant(found: Json) -> None:
    print_fields(console_of_any_width(), _readable(found))


def disabled_tenant(found: Json) -> None:
    tell(f"tenant {found['tenant_id']} is disabled: its deliveries and submissions are refused")


def _readable(found: Json) -> Json:
    rate, names = found.get("rate"), found["sources"]
    shown = None if rate is None else f"{rate['count']}/{rate['seconds']:g}s"
    limits = ", ".join(limit["name"] for limit in found.get("limits", ()))
    return {**found, "rate": shown, "sources": ", ".join(names), "limits": limits}


tenants = page(
    "tenants",
    ("tenant_id", "disabled", "rate", "weight", "sources", "updated_at", "display_name"),
    _readable,
)
