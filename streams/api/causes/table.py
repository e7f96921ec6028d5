"""Causes as the API shows them."""

from __future__ import annotations

import sqlite3

from streams.api.causes import standing as standings
from streams.api.causes.counted_table import EVERYBODY, HOUR_MS, KEPT_BUCKETS, MINUTE_MS
from streams.api.causes.decision import IGNORED, KIND, STATES, decision_in
from streams.api.causes.normalization import error_class, normalized
from streams.api.causes.standing import Standing
from streams.api.dead_letters.table import dead_letter, shown_letter
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PagedList, PageQuery
from streams.api.tenants.table import setting
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms

_MESSAGE_CHARS = 1_000
_LOOKED_AT = 200
"""Among so many of its newest letters an open one is looked for."""
_WIDTHS = {"hour": HOUR_MS, "minute": MINUTE_MS}


def shown_cause(connection: sqlite3.Connection, cause_id: str) -> Json | None:
    """Return a cause alone, with a letter of it; None if the reader sees none of its letters."""
    whose = standings.readers(connection, {})
    known = standings.standing(connection, whose, cause_id, wall_ms())
    if known is None:
        return None
    sample = dead_letter(connection, _sample_id(connection, known))
    return {
        **cause_json(connection, known),
        "minutes": _trend(connection, known, "minute"),
        "sample": None if sample is None else shown_letter(connection, sample),
    }


def cause_json(connection: sqlite3.Connection, known: Standing, every: str = "hour") -> Json:
    """Return a cause as lists show it.

    `message` is that of its newest letter. `trend` counts its letters in equal times, of which the
    last one is not over.
    """
    return {
        "id": known.id,
        **_failure_json(connection, known),
        "open": known.open,
        "total": known.letters,
        "trend": _trend(connection, known, every),
        "first_seen": rfc3339(known.first_at),
        "last_seen": rfc3339(known.newest.last_at),
        "tenants": {"count": known.tenants, "first": standings.tenants_of(connection, known)},
        "state": known.state,
        "came_back": known.came_back,
        "until": rfc3339(known.decided.until) if known.state == IGNORED else None,
        "decided": _decided_json(connection, known),
    }


def _failure_json(connection: sqlite3.Connection, known: Standing) -> Json:
    """Return what the letters of a cause have in common, and the message of the newest one."""
    where, values = _letters_of(known)
    kind, type_, stage, topic, reason, detail, code = connection.execute(
        "SELECT kind, type, stage, topic, reason, detail, code FROM dead_letters"  # noqa: S608
        f" WHERE {where} ORDER BY at DESC, id DESC LIMIT 1",
        values,
    ).fetchone()
    return {
        "kind": kind,
        "type": type_,
        "stage": stage,
        "topic": topic,
        "error_class": error_class(detail, reason),
        "message": detail[:_MESSAGE_CHARS],
        "normalized": normalized(detail),
        "code_version": code,
    }


def _sample_id(connection: sqlite3.Connection, known: Standing) -> str:
    """Return one of the newest letters: one that is open if there is one."""
    where, values = _letters_of(known)
    newest = f"SELECT * FROM dead_letters WHERE {where} ORDER BY at DESC, id DESC LIMIT ?"  # noqa: S608
    first = "replayed OR discarded OR manual, at DESC, id DESC"
    (found,) = connection.execute(
        f"SELECT id FROM ({newest}) ORDER BY {first} LIMIT 1",  # noqa: S608  constants
        (*values, _LOOKED_AT),
    ).fetchone()
    return str(found)


def _letters_of(known: Standing) -> tuple[str, tuple[str, ...]]:
    """Return the SQL of the letters of a cause among which its newest one is."""
    row = known.newest
    if row.tenant_id == EVERYBODY:
        return "cause = ?", (row.id,)
    return "cause = ? AND tenant_id = ?", (row.id, row.tenant_id)


def _trend(connection: sqlite3.Connection, known: Standing, every: str) -> Json:
    width = _WIDTHS[every]
    number = KEPT_BUCKETS[width]
    since = (known.now // width - number + 1) * width
    found = standings.counts(connection, known, width, since)
    return {
        "every": every,
        "since": rfc3339(since),
        "counts": [found.get(since + n * width, 0) for n in range(number)],
    }


def _decided_json(connection: sqlite3.Connection, known: Standing) -> Json | None:
    """Return what was decided last; by whom and why, if the reader may see the decision itself.

    A reader of some tenants does not see the words of a decision about all tenants' letters.
    """
    row = known.decided
    if row.decision is None:
        return None
    own = "" if row.tenant_id == EVERYBODY else row.tenant_id
    records = (setting(connection, each, KIND, row.id) for each in {own, ""})
    found = (decision_in(record) for record in records if record is not None)
    decision = next((each for each in found if each.at == row.decided_at), None)
    return {
        "state": row.decision,
        "at": rfc3339(row.decided_at),
        "by": None if decision is None else decision.by,
        "note": None if decision is None else decision.note,
    }


def _page(connection: sqlite3.Connection, query: PageQuery, _: Operator) -> Page:
    """Return causes, the one with the newest letter first."""
    found, after = standings.page(connection, query.filters, query.limit, query.cursor, wall_ms())
    every = str(query.filters.get("trend") or "hour")
    return Page(tuple(cause_json(connection, known, every) for known in found), after)


LISTING = PagedList(
    "causes",
    ("/v1/causes",),
    _page,
    {"tenant_id": (), "job_type": (), "state": STATES, "trend": ("hour", "minute")},
)
