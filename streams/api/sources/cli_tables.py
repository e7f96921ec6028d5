"""What `tidegate sources ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, tell
from streams.cli.lists import page


def disabled_source(found: Json) -> None:
    what = f"source {found['source']} of tenant {found['tenant_id']}"
    tell(f"{what} is disabled: its deliveries are refused, and its secrets are deleted")


def tested(found: Json) -> None:
    """What became of a test event: its event and job, or why it has none."""
    ids = [found[name] for name in ("event_id", "job_id") if found[name]]
    tell(" ".join([found["outcome"], found["event_type"] or found["sample"], *ids]))
    if found["reason"]:
        cause = f", {found['cause']}" if found["cause"] else ""
        tell(f"{found['reason']}{cause}: {found['detail']}")
    elif not found["routed"]:
        tell("no route matches its type: it has no job")


sources = page(
    "sources", ("tenant_id", "source", "disabled", "scheme", "secrets", "updated_at", "mapping")
)
