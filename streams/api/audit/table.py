"""Entries of the audit: what people did, or were refused, and the answers to their commands."""

from __future__ import annotations

import sqlite3

import orjson

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table, find, no_tombstone
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import DONE, REFUSED, AuditEntry


def answer_to(connection: sqlite3.Connection, command_id: str) -> AuditEntry | None:
    """Return the entry that answers a command; None while no stage has decided it."""
    return find(connection, AUDIT_ENTRY, TABLE.name, id=command_id)


def _row(record: Record) -> Row:
    entry = AUDIT_ENTRY.decode(record.value)
    return (
        entry.command_id or entry.id,
        entry.tenant_id,
        entry.principal,
        entry.verb,
        entry.target,
        entry.outcome,
        entry.at,
        record.value,
    )


def _item(_: sqlite3.Connection, row: Entry) -> Json:
    entry = AUDIT_ENTRY.decode(row.record)
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
    """Return a state as it was written; whoever may write the topic may write no JSON."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


TABLE = Table(
    name="audit",
    topic="audit",
    key="id TEXT",
    columns="tenant_id TEXT NOT NULL, principal TEXT NOT NULL, verb TEXT NOT NULL, "
    "target TEXT NOT NULL, outcome TEXT NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    split=no_tombstone,
    indexes={
        "newest": "(at, id)",
        "of_tenant": "(tenant_id, at, id)",
        "of_principal": "(principal, at, id)",
        "of_target": "(target, at, id)",
    },
    expires=True,
)
"""The id of a row is that of the command which the entry answers, if there is one: a command is
answered once."""
LISTING = Listing(
    TABLE.name,
    ("/v1/audit",),
    _item,
    {
        "tenant_id": (),
        "principal": (),
        "verb": (),
        "target": (),
        "outcome": (DONE, REFUSED),
        "command": (),
        "since": (),
    },
    conditions={"command": "id = ?", "since": "at >= ?"},
    times=("since",),
    by="principal",
)
