"""Dead letters, each with the jobs that were made of its own."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Sequence
from typing import Any

from streams.api.causes.grouping import failure_of
from streams.api.jobs.replays import replays
from streams.api.rows.json_values import Json, trace_id
from streams.api.rows.matched import MOST, matched
from streams.api.rows.paging import Listing, PageQuery
from streams.api.rows.table import Row, Table, find
from streams.dead_letter import is_closed, is_manual, is_replayed
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter

_ERROR_CHARS = 100

IS_OPEN = "replayed = 0 AND discarded = 0 AND manual = 0"
"""SQL for letters that nobody has dealt with, unless a job was made of one meanwhile."""
IS_MANUAL = "manual = 1"
"""SQL for letters whose work a person does by hand."""


def dead_letter(connection: sqlite3.Connection, id_: str) -> DeadLetter | None:
    """Return one dead letter, by job id or by stage:topic:partition:offset."""
    return find(connection, DEAD_LETTER, "dead_letters", id=id_)


def shown_letter(connection: sqlite3.Connection, letter: DeadLetter) -> Json:
    """Return a dead letter as lists show it, with the jobs that were made of its own."""
    row = connection.execute(
        "SELECT status FROM jobs WHERE job_id = ? AND tenant_id = ?",
        (letter.replayed_as, letter.tenant_id),
    ).fetchone()
    made = replays(connection, letter.tenant_id, letter.id)
    return dead_letter_json(letter, made, row[0] if row else None)


def dead_letter_json(
    letter: DeadLetter, replays: Sequence[Json] = (), status: str | None = None
) -> Json:
    """Return where a dead letter comes from and why, without its bytes.

    `replays` are the jobs made of it, newest first; `status` is that of the job it names.
    """
    return {
        "id": letter.id,
        "kind": letter.kind,
        "tenant_id": letter.tenant_id,
        "cause": failure_of(letter).cause_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "stage": letter.stage,
        "at": rfc3339(letter.at),
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "job_id": letter.job_id,
        "type": letter.type,
        "status": letter.status,
        "attempts": letter.attempts,
        "trace_id": trace_id(letter.traceparent),
        "replayed_at": rfc3339(letter.replayed_at),
        "replayed_as": letter.replayed_as,
        "replayed_status": status,
        "replayed_by": letter.replayed_by,
        "replay_outcome": letter.replay_outcome,
        "note": letter.note,
        "discarded_at": rfc3339(letter.discarded_at),
        "discarded_by": letter.discarded_by,
        "discard_note": letter.discard_note,
        "manual_at": rfc3339(letter.manual_at),
        "manual_by": letter.manual_by,
        "manual_note": letter.manual_note,
        "assignee": letter.assignee,
        "done_at": rfc3339(letter.done_at),
        "done_by": letter.done_by,
        "done_note": letter.done_note,
        "replays": list(replays),
    }


def errors(connection: sqlite3.Connection, query: PageQuery) -> Json:
    """Count the letters that a list's filters select by error, reason and type, most first.

    Of more than `MOST` letters, the newest ones are counted.
    """
    where, values = LISTING.condition(query.filters)
    whole = matched(connection, TABLE.name, where, values)
    rows = connection.execute(
        "SELECT count(*), error, reason, type, max(at), min(at) FROM"  # noqa: S608  constants
        f" (SELECT error, reason, type, at FROM dead_letters WHERE {where}"
        " ORDER BY at DESC, id DESC LIMIT ?)"
        " GROUP BY error, reason, type ORDER BY 1 DESC, 5 DESC LIMIT ?",
        (*values, MOST, query.limit + 1),
    ).fetchall()
    found = [_error_json(row) for row in rows[: query.limit]]
    return {"errors": found, "more": len(rows) > query.limit, **whole.json()}


def _error_json(row: tuple[Any, ...]) -> Json:
    count, error, reason, type_, last, first = row
    return {
        "count": count,
        "error": error,
        "reason": reason,
        "type": type_,
        "last_at": rfc3339(last),
        "first_at": rfc3339(first),
    }


def dead_record_json(letter: DeadLetter) -> Json:
    """Return a dead record's time, and its bytes in base64 (RFC 4648 section 4)."""
    return {
        "timestamp": rfc3339(letter.timestamp),
        "cut": letter.cut,
        "headers_base64": {name: _base64(value) for name, value in letter.headers.items()},
        "key_base64": _base64(letter.key),
        "value_base64": _base64(letter.value),
    }


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _row(record: Record) -> Row:
    letter = DEAD_LETTER.decode(record.value)
    failure = failure_of(letter)
    return (
        letter.id,
        letter.tenant_id,
        letter.kind,
        letter.stage,
        letter.reason,
        letter.topic,
        letter.type,
        is_replayed(letter),
        is_closed(letter),
        is_manual(letter),
        letter.assignee,
        _place(letter),
        letter.detail,
        _error(letter.detail),
        failure.cause_id,
        failure.code,
        record.partition,
        letter.at,
        record.value,
    )


def _error(detail: str) -> str:
    """Return what the details of one kind of failure begin with, such as an exception's name."""
    return detail.partition(":")[0].partition("\n")[0][:_ERROR_CHARS]


def _place(letter: DeadLetter) -> str:
    """Return a text by whose order records of a partition follow their offsets, jobs their ends."""
    if letter.kind == "job":
        return f"job:{letter.at:019}:{letter.id}"
    place = f"{letter.topic}:{letter.partition or 0:010}:{letter.offset or 0:019}"
    return f"record:{letter.stage}:{place}"


TABLE = Table(
    name="dead_letters",
    topic="dlq",
    key="id TEXT",
    columns="tenant_id TEXT NOT NULL, kind TEXT NOT NULL, stage TEXT NOT NULL, "
    "reason TEXT NOT NULL, topic TEXT, type TEXT, replayed INTEGER NOT NULL, "
    "discarded INTEGER NOT NULL, manual INTEGER NOT NULL, assignee TEXT, "
    "place TEXT NOT NULL, detail TEXT NOT NULL, "
    "error TEXT NOT NULL, cause TEXT NOT NULL, code TEXT, part INTEGER NOT NULL, "
    "at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    indexes={
        "newest": "(at, id)",
        "discarded": "(id) WHERE discarded = 1",
        "to_replay": f"(place) WHERE {IS_OPEN}",
        "open": f"(tenant_id, id) WHERE {IS_OPEN}",
        "manual": f"(tenant_id, id) WHERE {IS_MANUAL}",
        "of_tenant": "(tenant_id, at, id)",
    },
    expires=True,
)
HAS_NO_JOB = (
    "NOT EXISTS (SELECT 1 FROM jobs j"
    " WHERE j.replay_of = dead_letters.id AND j.tenant_id = dead_letters.tenant_id)"
)
"""SQL that holds for a letter of which no job was made."""
UNREPLAYED = f"replayed = 0 AND {HAS_NO_JOB}"
"""SQL that holds for a letter of which no job was made, and whose record was not sent in again or
is dead again."""
LISTING = Listing(
    TABLE.name,
    ("/v1/dlq",),
    lambda db, entry: shown_letter(db, DEAD_LETTER.decode(entry.record)),
    {
        "tenant_id": (),
        "kind": ("job", "record"),
        "stage": (),
        "reason": (),
        "topic": (),
        "type": (),
        "error": (),
        "cause": (),
        "not_replayed": ("true",),
        "discarded": ("true", "false"),
        "manual": ("true", "false"),
        "assignee": (),
    },
    moves=True,
    conditions={
        "not_replayed": f"? = 'true' AND {UNREPLAYED}",
        "discarded": "discarded = (? = 'true')",
        "manual": "manual = (? = 'true')",
        "error": "instr(lower(detail), lower(?)) > 0",
    },
    defaults={"discarded": "false", "manual": "false"},
)
FOR_A_PERSON = {"not_replayed": "true"}
"""The filters of the list of letters that a person has to act on."""
