"""Entries before they are linked to a chain, and as records of the topic `audit`."""

from __future__ import annotations

from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import AuditEntry, AuditOutcome, Call

TOPIC = "audit"


def of_call(
    call: Call,
    verb: str,
    target: str,
    outcome: AuditOutcome,
    at: int,
    *,
    tenant_id: str = "",
    reason: str | None = None,
    detail: str | None = None,
    note: str | None = None,
    command_id: str | None = None,
    before: str | None = None,
    after: str | None = None,
) -> AuditEntry:
    """What became of a call, not yet linked to a chain; `at` is in milliseconds.

    `before` and `after` are JSON of the target; put digests in the place of secrets.
    """
    return AuditEntry(
        id="",
        chain="",
        seq=0,
        previous=b"",
        hash=b"",
        at=at,
        principal=call.principal,
        role=call.role,
        tenant_id=tenant_id,
        verb=verb,
        target=target,
        outcome=outcome,
        reason=reason,
        detail=detail,
        note=note,
        request_id=call.request_id,
        command_id=command_id,
        before=before,
        after=after,
    )


def encoded(entry: AuditEntry) -> tuple[bytes, bytes]:
    """Key and value of an entry's record; it goes to the partition of its chain."""
    return entry.tenant_id.encode(), AUDIT_ENTRY.encode(entry)
