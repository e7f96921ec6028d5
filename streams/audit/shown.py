"""An entry as people and programs are shown it."""

from __future__ import annotations

from typing import Any

import orjson

from streams.http.moments import rfc3339
from streams.serde.records import AuditEntry


def shown(entry: AuditEntry) -> dict[str, Any]:
    """The fields of an entry, its states as JSON."""
    return {
        "id": entry.id,
        "at": rfc3339(entry.at),
        "principal": entry.principal,
        "role": entry.role,
        "tenant_id": entry.tenant_id or None,
        "verb": entry.verb,
        "target": entry.target,
        "outcome": entry.outcome,
        "reason": entry.reason,
        "detail": entry.detail,
        "note": entry.note,
        "request_id": entry.request_id,
        "command_id": entry.command_id,
        "before": _state(entry.before),
        "after": _state(entry.after),
        "chain": entry.chain,
        "seq": entry.seq,
        "hash": entry.hash.hex(),
    }


def _state(text: str | None) -> object:
    """A state as it was written; whoever may write the topic may write no JSON."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
