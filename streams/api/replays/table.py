"""Replays of events: what was asked by whom, how far each is, and what became of it."""

from __future__ import annotations

import sqlite3

from streams.api.rows.json_values import Json
from streams.api.rows.paging import Entry, Listing
from streams.api.rows.table import Row, Table
from streams.errors import DecodeError
from streams.event_replay.replay import KINDS, TOPIC, Replay
from streams.http.moments import rfc3339
from streams.runtime.processor import Record
from streams.serde.codec import REPLAY
from streams.serde.replay_records import RUNNING, ReplayAsked, ReplayProgress


def replay(connection: sqlite3.Connection, replay_id: str) -> Replay:
    """Return what is known of a replay; nothing is asked if there is none."""
    known = Replay(replay_id)
    for (record,) in connection.execute("SELECT record FROM replays WHERE id = ?", (replay_id,)):
        known = known.folded(REPLAY.decode(record))
    return known


def replay_json(known: Replay, asked: ReplayAsked) -> Json:
    """Return a replay as the API shows it."""
    done = known.progress or ReplayProgress(RUNNING, ())
    return {
        "replay_id": known.replay_id,
        "status": known.status,
        "note": asked.note,
        "asked_at": rfc3339(known.asked_at),
        "asked_by": known.asked_by,
        "selection": selection_json(asked),
        "job": asked.job,
        "priority": asked.priority,
        "rate": asked.rate,
        "events": done.events,
        "jobs": sum(done.jobs.values()),
        "jobs_by_type": done.jobs,
        "skipped": done.skipped,
        "skipped_samples": [{"event_id": i, "reason": r} for i, r in done.samples.items()],
        "unreadable": done.unreadable,
        "notes": list(done.notes),
        **_pace(known, done),
        "started_at": rfc3339(done.started_at or None),
        "last_error": done.error,
        "stopped_because": None if known.stopped is None else known.stopped.note,
    }


def selection_json(asked: ReplayAsked) -> Json:
    """Return which events are meant; times are those at which a broker took them in."""
    return {
        "tenant_id": asked.tenant_id,
        "source": asked.source,
        "event_type": list(asked.types),
        "subject": asked.subject,
        "since": rfc3339(asked.since),
        "until": rfc3339(asked.until),
        "offsets": {str(r.partition): [r.first, r.end] for r in asked.offsets} or None,
    }


def _pace(known: Replay, done: ReplayProgress) -> Json:
    """How much of the topic has been read, and how long the rest takes at the pace so far."""
    read = sum(span.next - span.first for span in done.spans)
    total = sum(span.end - span.first for span in done.spans)
    seconds = done.worked_ms / 1_000
    left = None
    if read and not known.ended:
        left = round((total - read) * seconds / read)
    return {
        "records_read": read,
        "records_total": total if done.spans else None,
        "seconds_worked": round(seconds, 1),
        "seconds_left": left,
    }


def _row(record: Record) -> Row:
    said = REPLAY.decode(record.value)
    asked = said.body if isinstance(said.body, ReplayAsked) else None
    kind = TABLE.row_key(record)[1]
    if KINDS[type(said.body)] != kind:
        raise DecodeError(f"{TOPIC}: the record's key names something else")
    return said.replay_id, kind, asked.tenant_id if asked else None, said.at, record.value


def _item(connection: sqlite3.Connection, entry: Entry) -> Json:
    asked = REPLAY.decode(entry.record).body
    assert isinstance(asked, ReplayAsked)  # noqa: S101  the listing reads no other row
    return replay_json(replay(connection, entry.id), asked)


TABLE = Table(
    name="replays",
    topic=TOPIC,
    key="id TEXT, kind TEXT",
    columns="tenant_id TEXT, at INTEGER NOT NULL, record BLOB NOT NULL",
    row=_row,
    belongs=(
        "(SELECT a.tenant_id FROM main.replays a WHERE a.id = replays.id AND a.kind = 'asked')"
        " {covered}"
    ),
    indexes={"newest": "(at, id) WHERE kind = 'asked'"},
)
LISTING = Listing(TABLE.name, ("/v1/replays",), _item, where="kind = 'asked'")
