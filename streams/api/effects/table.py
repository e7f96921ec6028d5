"""Side effects of jobs, as the ledger knows them.

An effect that counts beyond its job is in a shared scope, and each job that asked for it has a note
in its own (`streams.ledger_entries`).
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import get_args

from streams.api.rows.json_values import Json, parsed
from streams.api.rows.paging import Listing
from streams.api.rows.table import Row, Table, find, status_in
from streams.http.moments import rfc3339
from streams.ledger import repeatable_until
from streams.runtime.processor import Record
from streams.serde.codec import LEDGER_ENTRY
from streams.serde.effect_scopes import full_action, is_shared, noted, once_per
from streams.serde.effect_states import BEGUN, DONE, SHARED, UNSETTLED, EffectStatus
from streams.serde.records import Job, LedgerEntry

IS_UNSETTLED = status_in(*UNSETTLED)
"""SQL for effects without a known outcome."""

STATUSES = tuple(status for status in get_args(EffectStatus) if status != SHARED)
"""The states of an effect; `shared` is one of a note alone."""
_NO_NOTE = "substr(action, 1, 1) <> '@'"

# The effects of one piece of work: those of its first job, of its replays, and of theirs.
_FAMILY = """
WITH RECURSIVE
  up(id, parent) AS (
    SELECT job_id, replay_of FROM jobs WHERE job_id = :job_id AND tenant_id = :tenant_id
    UNION SELECT j.job_id, j.replay_of FROM up JOIN jobs j
      ON j.job_id = up.parent AND j.tenant_id = :tenant_id),
  family(id) AS (
    SELECT id FROM up
    UNION SELECT j.job_id FROM family JOIN jobs j
      ON j.replay_of = family.id AND j.tenant_id = :tenant_id)
SELECT e.record FROM effects e
WHERE e.tenant_id = :tenant_id AND e.scope IN
  (SELECT j.scope FROM family JOIN jobs j ON j.job_id = family.id)
ORDER BY e.first_claimed_at, e.action
"""


def effects_of(connection: sqlite3.Connection, job: Job) -> tuple[LedgerEntry, ...]:
    """Return the effects of the job's scope and the shared ones that it asked for.

    They are in the order in which they were first claimed.
    """
    rows = connection.execute(
        "SELECT record FROM effects WHERE tenant_id = ? AND scope = ?"
        " ORDER BY first_claimed_at, action",
        (job.tenant_id, job.scope),
    )
    entries = (LEDGER_ENTRY.decode(record) for (record,) in rows)
    found = (_as_it_is(connection, e) if is_shared(e.action) else e for e in entries)
    return tuple(entry for entry in found if entry is not None)


def _as_it_is(connection: sqlite3.Connection, note: LedgerEntry) -> LedgerEntry | None:
    """Return the shared effect of a note; None if its time is over and the note has no result."""
    scope, action = noted(note.action)
    key = {"tenant_id": note.tenant_id, "scope": scope, "action": action}
    entry = find(connection, LEDGER_ENTRY, "effects", **key)
    if entry is None and note.status == DONE:
        return replace(note, scope=scope, action=action)
    return entry


def changed_effects(
    connection: sqlite3.Connection, job: Job, offset: int, most: int
) -> list[tuple[int, str]]:
    """Return the effects of `effects_of` that changed from an offset of the ledger on, in order.

    Each has the offset of its newest record, or of the job's note about it, and the name under
    which `effect` finds it. Of more than `most`, the first ones.
    """
    own = connection.execute(
        "SELECT off, action FROM effects WHERE tenant_id = ? AND scope = ? AND off >= ?"  # noqa: S608
        f" AND {_NO_NOTE} ORDER BY off LIMIT ?",
        (job.tenant_id, job.scope, offset, most),
    ).fetchall()
    notes = connection.execute(
        "SELECT off, action FROM effects WHERE tenant_id = ? AND scope = ?"
        " AND action >= '@' AND action < 'A'",
        (job.tenant_id, job.scope),
    ).fetchall()
    shared = (
        (max(off, _shared_offset(connection, job.tenant_id, action)), action)
        for off, action in notes
    )
    return sorted([*own, *(each for each in shared if each[0] >= offset)])[:most]


def _shared_offset(connection: sqlite3.Connection, tenant_id: str, note: str) -> int:
    """Return the offset of the shared effect that a note is about; -1 for none."""
    if not is_shared(note):
        return -1
    row = connection.execute(
        "SELECT off FROM effects WHERE tenant_id = ? AND scope = ? AND action = ?",
        (tenant_id, *noted(note)),
    ).fetchone()
    return -1 if row is None else int(row[0])


def effect(connection: sqlite3.Connection, job: Job, action: str) -> LedgerEntry | None:
    """Return one effect of the job, by the name under which the job's view shows it."""
    key = {"tenant_id": job.tenant_id, "scope": job.scope, "action": action}
    entry = find(connection, LEDGER_ENTRY, "effects", **key)
    if entry is None or not is_shared(action):
        return entry
    return _as_it_is(connection, entry)


def shared_effect(
    connection: sqlite3.Connection, tenant_id: str, full_action: str
) -> LedgerEntry | None:
    """Return a shared effect of a tenant by its full name."""
    scope, action = noted(full_action)
    key = {"tenant_id": tenant_id, "scope": scope, "action": action}
    return find(connection, LEDGER_ENTRY, "effects", **key) if is_shared(scope) else None


def begun_effects(connection: sqlite3.Connection, job: Job) -> list[LedgerEntry]:
    """Return the begun effects of a job and of all its replays, one for each action.

    A fresh scope would begin them once more, whichever of these jobs has done them. It does not
    begin a shared effect again.
    """
    named = {"job_id": job.job_id, "tenant_id": job.tenant_id}
    found = [LEDGER_ENTRY.decode(record) for (record,) in connection.execute(_FAMILY, named)]
    own = [entry for entry in found if not is_shared(entry.action)]
    begun = {entry.action: entry for entry in own if entry.status in BEGUN}
    return list(begun.values())


def effect_json(entry: LedgerEntry, settle_after: int | None = None) -> Json:
    """Return one side effect; `claims` is how often it was granted.

    `settle_after`, in milliseconds, is when a person can settle it; None: it cannot be settled.
    Until `repeatable_until`, a run repeats an unknown call under its key; None: it never does. An
    effect that counts beyond its job, by `once_per`, is known until `kept_until`; None: until then
    and longer, because somebody has to find out whether it was done.
    """
    tool, _, key = entry.action.partition("/")
    return {
        "action": full_action(entry.scope, entry.action),
        "tool": tool,
        "key": key,
        "once_per": once_per(entry.scope),
        "job_id": entry.job_id,
        "status": entry.status,
        "began_at": rfc3339(entry.first_claimed_at),
        "run_id": entry.run_id,
        "arguments_sha256": entry.digest.hex(),
        "idempotency_key": entry.idempotency_key,
        "claims": entry.claims,
        "result": parsed(entry.result),
        "error": entry.error,
        "settle_after": rfc3339(settle_after),
        "repeatable_until": rfc3339(_repeatable_until(entry)),
        "settled_by": entry.settled_by,
        "note": entry.note,
        "kept_until": rfc3339(_kept_until(entry)),
        "updated_at": rfc3339(entry.updated_at),
    }


def _repeatable_until(entry: LedgerEntry) -> int | None:
    return repeatable_until(entry) if entry.key_lifetime_ms > 0 else None


def _kept_until(entry: LedgerEntry) -> int | None:
    kept = is_shared(entry.scope) and entry.status not in UNSETTLED
    return entry.updated_at + entry.keep_ms if kept else None


def effect_alone(entry: LedgerEntry) -> Json:
    """Return an effect as it is shown without its job."""
    return {"tenant_id": entry.tenant_id, **effect_json(entry)}


def _row(record: Record) -> Row:
    entry = LEDGER_ENTRY.decode(record.value)
    tool, _, key = entry.action.partition("/")
    return (
        entry.tenant_id,
        entry.scope,
        entry.action,
        entry.idempotency_key,
        tool,
        key,
        entry.job_id,
        entry.status,
        entry.first_claimed_at,
        record.offset,
        record.value,
    )


TABLE = Table(
    name="effects",
    topic="ledger",
    key="tenant_id TEXT, scope TEXT, action TEXT",
    columns="id TEXT NOT NULL, tool TEXT NOT NULL, effect_key TEXT NOT NULL, "
    "job_id TEXT NOT NULL, status TEXT NOT NULL, first_claimed_at INTEGER NOT NULL, "
    "off INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={
        "newest": "(first_claimed_at, id)",
        "of_tenant": "(tenant_id, first_claimed_at, id)",
        "by_key": "(effect_key, tenant_id, first_claimed_at, id)",
        "unsettled": f"(first_claimed_at, id) WHERE {IS_UNSETTLED}",
        "unsettled_of": f"(tenant_id, first_claimed_at, status, job_id) WHERE {IS_UNSETTLED}",
    },
)
LISTING = Listing(
    TABLE.name,
    ("/v1/effects", "/v1/tenants/{tenant_id}/effects"),
    lambda _, entry: effect_alone(LEDGER_ENTRY.decode(entry.record)),
    {"tenant_id": (), "tool": (), "key": (), "status": STATUSES},
    order=("first_claimed_at", "id"),
    conditions={"key": "effect_key = ?"},
    where=_NO_NOTE,
)
