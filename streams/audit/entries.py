"""Entries before they are linked to a chain, and as records of the topic `audit`."""

from __future__ import annotations

from streams.audit.commands import Asked
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import AuditEntry, AuditOutcome, Call

TOPIC = "audit"
_NAME_BYTES = 1024
_TEXT_BYTES = 16 * 1024


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

    `before` and `after` are JSON of the target, which the caller keeps short; put digests in the
    place of secrets. Texts are cut, so that every entry fits a message.
    """
    return AuditEntry(
        id="",
        chain="",
        seq=0,
        previous=b"",
        hash=b"",
        at=at,
        principal=_cut(call.principal),
        role=_cut(call.role),
        tenant_id=_cut(tenant_id),
        verb=verb,
        target=_cut(target),
        outcome=outcome,
        reason=reason,
        detail=_text(detail),
        note=_text(note),
        request_id=_cut(call.request_id),
        command_id=None if command_id is None else _cut(command_id),
        before=_text(before),
        after=_text(after),
    )


def of_asked(
    asked: Asked,
    outcome: AuditOutcome,
    at: int,
    *,
    reason: str | None = None,
    detail: str | None = None,
    before: str | None = None,
    after: str | None = None,
) -> AuditEntry:
    """The answer to a command, as `of_call` makes it."""
    return of_call(
        asked.call,
        asked.verb,
        asked.target,
        outcome,
        at,
        tenant_id=asked.tenant_id,
        reason=reason,
        detail=detail,
        note=asked.note,
        command_id=asked.command_id,
        before=before,
        after=after,
    )


def encoded(entry: AuditEntry) -> tuple[bytes, bytes]:
    """Key and value of an entry's record; it goes to the partition of its chain."""
    return entry.tenant_id.encode(), AUDIT_ENTRY.encode(entry)


def _cut(text: str, most: int = _NAME_BYTES) -> str:
    """As much of a text as is kept, without what UTF-8 cannot encode."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")


def _text(text: str | None) -> str | None:
    return None if text is None else _cut(text, _TEXT_BYTES)
