"""What `tidegate quarantine ...` prints for people."""

from __future__ import annotations

from streams.cli.cells import Json, tell
from streams.cli.lists import page


def released(found: Json) -> None:
    """A body that was accepted as an event."""
    its_job = f", and its job is {found['job_id']}" if found["job_id"] else ""
    tell(f"{found['event_id']} is an event of source {found['source']} now{its_job}")


quarantined = page(
    "quarantine", ("status", "reason", "source", "tenant_id", "received_at", "id", "job_id")
)
