"""Entries of the audit: what people did, or were refused, and the answers to their commands."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table, find, no_tombstone
from streams.audit.chain import Head, head_of
from streams.audit.shown import shown
from streams.runtime.processor import Record
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import DONE, REFUSED, AuditEntry


def answer_to(connection: sqlite3.Connection, command_id: str) -> AuditEntry | None:
    """Return the entry that answers a command; None while no stage has decided it."""
    return find(connection, AUDIT_ENTRY, TABLE.name, id=command_id)


def head(connection: sqlite3.Connection, chain: str) -> Head:
    """Return the newest entry of a chain."""
    newest = "SELECT record FROM audit WHERE chain = ? ORDER BY seq DESC LIMIT 1"
    row = connection.execute(newest, (chain,)).fetchone()
    return Head(chain) if row is None else head_of(AUDIT_ENTRY.decode(row[0]))


def has(connection: sqlite3.Connection, head: Head) -> bool:
    """Return whether the entry of a head is a row."""
    look = "SELECT record FROM audit WHERE chain = ? AND seq = ?"
    rows = connection.execute(look, (head.chain, head.seq))
    return any(head_of(AUDIT_ENTRY.decode(record)) == head for (record,) in rows)


def _row(record: Record) -> Row:
    entry = AUDIT_ENTRY.decode(record.value)
    return (
        entry.command_id or entry.id,
        entry.tenant_id,
        entry.principal,
        entry.verb,
        entry.target,
        entry.outcome,
        entry.request_id,
        entry.at,
        entry.chain,
        entry.seq,
        record.value,
    )


def _item(_: sqlite3.Connection, row: Entry) -> Json:
    return shown(AUDIT_ENTRY.decode(row.record))


TABLE = Table(
    name="audit",
    topic="audit",
    key="id TEXT",
    columns="tenant_id TEXT NOT NULL, principal TEXT NOT NULL, verb TEXT NOT NULL, "
    "target TEXT NOT NULL, outcome TEXT NOT NULL, request_id TEXT, at INTEGER NOT NULL, "
    "chain TEXT NOT NULL, seq INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    split=no_tombstone,
    indexes={
        "newest": "(at, id)",
        "of_tenant": "(tenant_id, at, id)",
        "of_principal": "(principal, at, id)",
        "of_target": "(target, at, id)",
        "of_request": "(request_id, at, id)",
        "of_chain": "(chain, seq)",
    },
    expires=True,
    may_expire="seq < (SELECT max(seq) FROM audit AS newer WHERE newer.chain = audit.chain)",
)
"""The id of a row is that of the command which the entry answers, if there is one: a command is
answered once. The newest entry of a chain stays, however old it is: its writer links the next one
to it."""
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
        "request_id": (),
        "since": (),
    },
    conditions={"command": "id = ?", "since": "at >= ?"},
    times=("since",),
    by="principal",
)
