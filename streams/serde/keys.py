"""Keys of records that several stages read; a part never contains the separator."""

from __future__ import annotations

SEPARATOR = b"\0"


def join(*parts: str) -> bytes:
    """One key of several parts, so that all keys with the same first part are adjacent."""
    return SEPARATOR.join(part.encode() for part in parts)


def split(key: bytes) -> list[str]:
    """The parts of a joined key."""
    return [part.decode() for part in key.split(SEPARATOR)]


def ledger_key(tenant_id: str, scope: str, action: str) -> bytes:
    """Key of a side effect on `ledger`."""
    return join(tenant_id, scope, action)


def approval_key(tenant_id: str, scope: str, approval_id: str) -> bytes:
    """Key of an approval on `approvals`."""
    return join(tenant_id, scope, approval_id)


def schedule_key(tenant_id: str, schedule_id: str) -> bytes:
    """Key of a schedule on `schedules`."""
    return join(tenant_id, schedule_id)


def workflow_key(tenant_id: str, workflow_id: str) -> bytes:
    """Key of a workflow on `workflows`."""
    return join(tenant_id, workflow_id)


def checkpoint_key(job_id: str, incarnation: int, step: str) -> bytes:
    """Key of a finished step in `checkpoints`."""
    return join(job_id, str(incarnation), step)


def tenant_key(tenant_id: str, kind: str, id_: str) -> bytes:
    """Key of a setting on `tenants`."""
    return join(tenant_id, kind, id_)


def holds_secret(key: bytes) -> bool:
    """Whether the value under a key on `tenants`, which may be malformed, may hold a secret.

    That is so for data keys, sources and endpoints. Never copy such a value: a copy would outlive
    the secret's removal and the tenant's erasure.
    """
    parts = key.split(SEPARATOR)
    return len(parts) != 3 or parts[1] not in (b"tenant", b"erasure")


def quarantine_key(tenant_id: str, source: str, payload_hash: bytes) -> bytes:
    """Key of a body on `quarantine`."""
    return join(tenant_id, source, payload_hash.hex())


def held_key(partition: int, pool: str, type_: str, tenant_id: str | None) -> bytes:
    """Key of jobs for which no lease can be made, on `jobs.held`."""
    return join(str(partition), pool, type_, tenant_id or "")


def replay_key(replay_id: str, kind: str) -> bytes:
    """Key of what is known of a replay, on `replays`; kinds: asked, paused, stopped, progress."""
    return join(replay_id, kind)


def bulk_key(bulk_id: str, kind: str, of: str = "") -> bytes:
    """Key of what is known of a bulk act, on `bulk`.

    `of` is a plan and its item, or a person who joined.
    """
    return join(bulk_id, kind, of)


def after(prefix: bytes) -> bytes:
    """The first key after every key with this prefix."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else b"\xff" * 64
