"""Side effects of jobs, as the ledger knows them."""

from __future__ import annotations

import sqlite3

from streams.http.moments import rfc3339
from streams.ledger import repeatable_until
from streams.operator.resources.json_values import Json, parsed
from streams.operator.resources.table import Row, Table, find, status_in
from streams.runtime.processor import Record
from streams.serde.codec import LEDGER_ENTRY
from streams.serde.effect_states import BEGUN, UNSETTLED
from streams.serde.records import Job, LedgerEntry

IS_UNSETTLED = status_in(*UNSETTLED)
"""SQL for effects without a known outcome."""

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
    """Return the effects of the job's scope, in the order they were first claimed."""
    rows = connection.execute(
        "SELECT record FROM effects WHERE tenant_id = ? AND scope = ?"
        " ORDER BY first_claimed_at, action",
        (job.tenant_id, job.scope),
    )
    return tuple(LEDGER_ENTRY.decode(record) for (record,) in rows)


def effect(connection: sqlite3.Connection, job: Job, action: str) -> LedgerEntry | None:
    """Return one effect of the job's scope."""
    key = {"tenant_id": job.tenant_id, "scope": job.scope, "action": action}
    return find(connection, LEDGER_ENTRY, "effects", **key)


def begun_effects(connection: sqlite3.Connection, job: Job) -> list[LedgerEntry]:
    """Return the begun effects of a job and of all its replays, one for each action.

    A fresh scope would begin them once more, whichever of these jobs has done them.
    """
    named = {"job_id": job.job_id, "tenant_id": job.tenant_id}
    found = [LEDGER_ENTRY.decode(record) for (record,) in connection.execute(_FAMILY, named)]
    begun = {entry.action: entry for entry in found if entry.status in BEGUN}
    return list(begun.values())


def effect_json(entry: LedgerEntry, settle_after: int | None = None) -> Json:
    """Return one side effect; `claims` is how often it was granted.

    `settle_after`, in milliseconds, is when a person can settle it; None: it cannot be settled.
    Until `repeatable_until`, a run repeats an unknown call under its key; None: it never does.
    """
    tool, _, key = entry.action.partition("/")
    return {
        "action": entry.action,
        "tool": tool,
        "key": key,
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
        "updated_at": rfc3339(entry.updated_at),
    }


def _repeatable_until(entry: LedgerEntry) -> int | None:
    return repeatable_until(entry) if entry.key_lifetime_ms > 0 else None


def _row(record: Record) -> Row:
    entry = LEDGER_ENTRY.decode(record.value)
    return (
        entry.tenant_id,
        entry.scope,
        entry.action,
        entry.idempotency_key,
        entry.status,
        entry.first_claimed_at,
        record.value,
    )


TABLE = Table(
    name="effects",
    topic="ledger",
    key="tenant_id TEXT, scope TEXT, action TEXT",
    columns="id TEXT NOT NULL, status TEXT NOT NULL, first_claimed_at INTEGER NOT NULL, "
    "record BLOB NOT NULL",
    row=_row,
    indexes={"unsettled": f"(first_claimed_at, id) WHERE {IS_UNSETTLED}"},
)
