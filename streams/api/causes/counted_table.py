"""Causes in numbers: of each tenant, and under `*` of all tenants together.

Triggers on the dead letters count them. SQLite runs them for each letter that is added, replaced or
deleted, so a letter that is read again counts once, and one that was replayed or discarded is open
no more. Triggers on `tenants` note what people decided.
"""

from __future__ import annotations

from streams.api.causes.decision import IGNORED, KIND, OPEN, RESOLVED
from streams.api.rows.derived import Derived

EVERYBODY = "*"
"""Stands for a tenant in the rows that count all letters; no tenant has this name."""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
KEPT_BUCKETS = {MINUTE_MS: 60, HOUR_MS: 24}
"""So many buckets of each width are shown. A cause keeps one more, counted from its last letter."""

_ALL, _OWN = f"'{EVERYBODY}'", "{row}.tenant_id"
_BOTH = f"(VALUES ({_ALL}), (nullif({_OWN}, {_ALL})))"
_WIDTHS = ", ".join(f"({width}, {kept})" for width, kept in KEPT_BUCKETS.items())
_OF_BOTH = f"id = {{row}}.cause AND tenant_id IN ({_ALL}, {_OWN})"
_IS_OPEN = "({row}.replayed = 0 AND {row}.discarded = 0 AND {row}.manual = 0)"
_IN_BUCKET = " OR ".join(
    f"(width = {width} AND at = {{row}}.at / {width} * {width})" for width in KEPT_BUCKETS
)


def _end(column: str, which: str, sign: str, letters: str) -> str:
    """Return SQL that finds first or last letter again, if it may have been the one deleted."""
    again = f"(SELECT {which}(at) FROM dead_letters WHERE {letters})"  # noqa: S608  constants
    again = f"coalesce({again}, {column})"
    return f"{column} = CASE WHEN {{row}}.at {sign} {column} THEN {again} ELSE {column} END"


def _take(whose: str, letters: str) -> str:
    return (
        f"UPDATE causes SET letters = letters - 1, open = open - {_IS_OPEN},"  # noqa: S608  constants
        f" {_end('first_at', 'min', '<=', letters)}, {_end('last_at', 'max', '>=', letters)}"
        f" WHERE id = {{row}}.cause AND tenant_id = {whose};"
    )


_ADD = "\n".join(
    (
        "INSERT INTO causes (id, tenant_id, type, letters, open, tenants, first_at, last_at)"  # noqa: S608
        f" SELECT {{row}}.cause, column1, {{row}}.type, 1, {_IS_OPEN}, 0, {{row}}.at, {{row}}.at"
        f" FROM {_BOTH} WHERE column1 IS NOT NULL"
        " ON CONFLICT DO UPDATE SET letters = letters + 1, open = open + excluded.open,"
        " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at);",
        "INSERT INTO cause_counts (id, tenant_id, width, at, letters)"  # noqa: S608  constants
        " SELECT c.id, c.tenant_id, w.column1, {row}.at / w.column1 * w.column1, 1"
        f" FROM causes c, (VALUES {_WIDTHS}) w WHERE c.id = {{row}}.cause"
        f" AND c.tenant_id IN ({_ALL}, {_OWN})"
        " AND {row}.at / w.column1 >= c.last_at / w.column1 - w.column2"
        " ON CONFLICT DO UPDATE SET letters = letters + 1;",
    )
)
_REMOVE = "\n".join(
    (
        _take(_ALL, "cause = {row}.cause"),
        _take(_OWN, "cause = {row}.cause AND tenant_id = {row}.tenant_id"),
        f"DELETE FROM causes WHERE {_OF_BOTH} AND letters <= 0;",  # noqa: S608  constants
        f"UPDATE cause_counts SET letters = letters - 1 WHERE {_OF_BOTH} AND ({_IN_BUCKET});",  # noqa: S608
        f"DELETE FROM cause_counts WHERE {_OF_BOTH} AND ({_IN_BUCKET}) AND letters <= 0;",  # noqa: S608
    )
)
_PRUNE = (
    "DELETE FROM cause_counts WHERE id = NEW.id AND tenant_id = NEW.tenant_id"  # noqa: S608
    " AND width = NEW.width AND at < NEW.at - NEW.width"
    f" * CASE NEW.width WHEN {MINUTE_MS} THEN {KEPT_BUCKETS[MINUTE_MS]}"
    f" ELSE {KEPT_BUCKETS[HOUR_MS]} END;"
)
"""A new bucket takes the place of those that are too old to be shown beside it."""
_DECIDE = (
    "UPDATE causes SET (decision, decided_at, until) = (SELECT decision, updated_at, until"  # noqa: S608
    f" FROM tenants t WHERE t.tenant_id IN ('', causes.tenant_id) AND t.kind = '{KIND}'"
    " AND t.id = causes.id ORDER BY updated_at DESC LIMIT 1) WHERE id = {row}.id"
    " AND ({row}.tenant_id = '' OR tenant_id = {row}.tenant_id);"
)
"""The newest decision counts: of those about all tenants' letters, and about one tenant's."""
_IS_TENANT = f"{{row}}.tenant_id NOT IN ('', '{EVERYBODY}')"
_HIT = (
    f"UPDATE causes SET tenants = tenants {{sign}} 1 WHERE id = {{row}}.id"  # noqa: S608
    f" AND tenant_id = '{EVERYBODY}' AND {_IS_TENANT};"
)


def _trigger(name: str, event: str, body: str, only: str = "") -> str:
    when = f" WHEN {only}" if only else ""
    return f"CREATE TRIGGER {name} AFTER {event}{when} BEGIN\n{body}\nEND;"


def _of(body: str, row: str, **more: str) -> str:
    return body.format(row=row, **more)


_TRIGGERS = "\n".join(
    (
        _trigger("letter_added", "INSERT ON dead_letters", _of(_ADD, "NEW")),
        _trigger("letter_removed", "DELETE ON dead_letters", _of(_REMOVE, "OLD")),
        _trigger(
            "letter_changed",
            "UPDATE ON dead_letters",
            f"{_of(_REMOVE, 'OLD')}\n{_of(_ADD, 'NEW')}",
        ),
        _trigger(
            "cause_begun",
            "INSERT ON causes",
            f"{_of(_DECIDE, 'NEW')}\n{_of(_HIT, 'NEW', sign='+')}",
        ),
        _trigger("bucket_begun", "INSERT ON cause_counts", _PRUNE),
        _trigger("cause_gone", "DELETE ON causes", _of(_HIT, "OLD", sign="-")),
        _trigger("cause_decided", "INSERT ON tenants", _of(_DECIDE, "NEW"), f"NEW.kind = '{KIND}'"),
        _trigger("decision_gone", "DELETE ON tenants", _of(_DECIDE, "OLD"), f"OLD.kind = '{KIND}'"),
    )
)
_STATE = (
    f"CASE WHEN decision = '{IGNORED}' THEN '{IGNORED}'"
    f" WHEN decision = '{RESOLVED}' AND last_at <= decided_at THEN '{RESOLVED}'"
    f" ELSE '{OPEN}' END"
)
DERIVED = (
    Derived(
        name="causes",
        columns="id TEXT NOT NULL, tenant_id TEXT NOT NULL, type TEXT, letters INTEGER NOT NULL, "
        "open INTEGER NOT NULL, tenants INTEGER NOT NULL, first_at INTEGER NOT NULL, "
        "last_at INTEGER NOT NULL, decision TEXT, decided_at INTEGER, until INTEGER, "
        f"state TEXT AS ({_STATE}) VIRTUAL, PRIMARY KEY (id, tenant_id)",
        beside="CREATE INDEX dead_letters_of_cause ON dead_letters (cause, at, id);\n"
        "CREATE INDEX dead_letters_of_cause_and_tenant"
        " ON dead_letters (cause, tenant_id, at, id);",
        indexes={
            "by_state": "(tenant_id, state, last_at, id)",
            "by_type": "(tenant_id, type, state, last_at, id)",
        },
    ),
    Derived(
        name="cause_counts",
        columns="id TEXT NOT NULL, tenant_id TEXT NOT NULL, width INTEGER NOT NULL, "
        "at INTEGER NOT NULL, letters INTEGER NOT NULL, PRIMARY KEY (id, tenant_id, width, at)",
        triggers=_TRIGGERS,
    ),
)
