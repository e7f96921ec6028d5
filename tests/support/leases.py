"""Leases for tests of what holds them."""

from __future__ import annotations

from streams.serde.records import Lease


def lease_to(home_partition: int) -> Lease:
    """A lease of a partition."""
    return Lease(
        job_id="job_1",
        epoch=1,
        run_id="run_1",
        tenant_id="acme",
        scope="s",
        type="job",
        incarnation=0,
        attempt=1,
        max_attempts=1,
        timeout_seconds=300,
        term_seconds=30,
        home_partition=home_partition,
        event=None,
        payload_ref=None,
        input="null",
        workflow_id=None,
        steps=(),
        traceparent=None,
        granted_at=0,
        alone=False,
    )
