"""All that became of one event, from every table that knows it."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict

from streams.api.dead_letters.table import dead_letter, shown_letter
from streams.api.deliveries import table as deliveries
from streams.api.duplicates import table as duplicates
from streams.api.events.table import (
    TABLE,
    Arrival,
    arrival,
    event,
    event_details,
    event_json,
    job_id_of,
)
from streams.api.jobs import replays
from streams.api.jobs.superseded import taker_of
from streams.api.jobs.table import shown_job
from streams.api.quarantine.table import quarantined, quarantined_json
from streams.api.rows.json_values import Json
from streams.http.moments import rfc3339
from streams.serde.records import DeadLetter, Envelope
from streams.topology.model import Topology


def shown_event(connection: sqlite3.Connection, event_id: str, topology: Topology) -> Json | None:
    """Return an event with its duplicates, job, replays, dead letters, quarantine, deliveries.

    `route` is the one that matches it now, `awaited_by` names the job types that wait for such
    events. `taken_by` is the job that runs for it, if that is not its own.
    """
    found = event(connection, event_id)
    if found is None:
        return None
    route = topology.route(found.source, found.event_type)
    job_id, arrived = job_id_of(connection, found), arrival(connection, event_id)
    replayed = _replays(connection, found, job_id)
    return {
        **event_json(found, job_id),
        **event_details(found),
        "partition": arrived.partition,
        "offset": arrived.offset,
        "route": None if route is None else asdict(route),
        "awaited_by": topology.awaited_by(found.source, found.event_type),
        "duplicates": _duplicates(connection, found, arrived),
        "taken_by": _taken_by(connection, found, job_id),
        "job": None if job_id is None else shown_job(connection, job_id, topology),
        "replays": replayed,
        "dead_letters": _dead_letters(connection, found, arrived, job_id, replayed),
        "quarantine": _quarantine(connection, found),
        "deliveries": deliveries.of_event(connection, found.tenant_id, event_id),
    }


def _taken_by(connection: sqlite3.Connection, found: Envelope, job_id: str | None) -> str | None:
    if job_id is None:
        return None
    taker = taker_of(connection, job_id, found.tenant_id)
    return None if taker == job_id else taker


def _replays(connection: sqlite3.Connection, found: Envelope, job_id: str | None) -> list[Json]:
    """Return the jobs made of the event's own job, and those that replays of events made of it."""
    of_event = replays.of_event(connection, found.tenant_id, found.event_id)
    if job_id is None:
        return of_event
    return replays.replays(connection, found.tenant_id, job_id, of_replays=True) + of_event


def _duplicates(connection: sqlite3.Connection, found: Envelope, arrived: Arrival) -> Json | None:
    counted = duplicates.of_event(connection, found.tenant_id, found.fingerprint, arrived.at)
    if counted is None:
        return None
    return {
        "count": counted.count,
        "last_at": rfc3339(counted.last_at),
        "last_event_id": counted.last_event_id,
    }


def _dead_letters(
    connection: sqlite3.Connection,
    found: Envelope,
    arrived: Arrival,
    job_id: str | None,
    replayed: list[Json],
) -> list[Json]:
    """Return the letters of the event's job and its replays, and of its record."""
    ids = [*([] if job_id is None else [job_id]), *(each["job_id"] for each in replayed)]
    of_jobs = (dead_letter(connection, id_) for id_ in ids)
    letters = [*of_jobs, *record_letters(connection, found, arrived)]
    return [shown_letter(connection, letter) for letter in letters if letter is not None]


def record_letters(
    connection: sqlite3.Connection, found: Envelope, arrived: Arrival
) -> list[DeadLetter]:
    """Return the letters of the event's record, which then gave no job."""
    places = arrived.offset, found.event_id  # the fused dispatcher knows no offset
    ids = (f"dispatcher:{TABLE.topic}:{arrived.partition}:{place}" for place in places)
    letters = (dead_letter(connection, id_) for id_ in ids)
    return [letter for letter in letters if letter is not None]


def _quarantine(connection: sqlite3.Connection, found: Envelope) -> Json | None:
    """Return the entry that was released as this event; None if it was accepted at once."""
    kept = quarantined(connection, found.event_id)
    if kept is None or kept.tenant_id != found.tenant_id:
        return None
    return quarantined_json(kept)
