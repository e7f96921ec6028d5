"""Leases as the owner of a job makes them, and what steps and waits left."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import Any

from streams.serde.ids import new_id, scope_of
from streams.serde.records import Lease, StepResult, Wait

_NUMBERS = count(1)


def lease(
    type_: str, value: Any = None, partition: int = 0, *, term: float = 10.0, timeout: float = 60.0
) -> Lease:
    """The lease of a job's first run."""
    job_id = f"job_{next(_NUMBERS):026d}"
    return Lease(
        job_id=job_id,
        epoch=1,
        run_id=new_id("run"),
        tenant_id="acme",
        scope=scope_of(job_id, 1, 1_700_000_000_000),
        type=type_,
        incarnation=1,
        attempt=1,
        max_attempts=5,
        timeout_seconds=timeout,
        term_seconds=term,
        home_partition=partition,
        event=None,
        payload_ref=None,
        input=json.dumps(value),
        workflow_id=None,
        steps=(),
        traceparent=None,
        granted_at=1_700_000_000_000,
        alone=False,
    )


def next_run(lease: Lease, *left: StepResult) -> Lease:
    """The lease of the next run of a job, which has what steps and waits left before."""
    known = {each.id: each for each in (*lease.steps, *left)}
    steps = tuple(known[id_] for id_ in sorted(known))
    return replace(lease, epoch=lease.epoch + 1, run_id=new_id("run"), steps=steps)


def ended(
    wait: Wait, value: Any = None, raises: str | None = None, message: str = ""
) -> StepResult:
    """What a wait leaves that has ended."""
    return StepResult(
        wait.id,
        wait.kind,
        wait.position,
        wait.digest,
        json.dumps(value) if raises is None else None,
        raises,
        message,
        failed_before=wait.failed_before,
        number=7,
    )
