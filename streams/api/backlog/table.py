"""How many jobs wait for a slot, where that is near a cap of `max_queued`: one row a partition."""

from __future__ import annotations

import sqlite3
from functools import lru_cache

from streams.access.principal import Principal
from streams.api.rows.json_values import Json
from streams.api.rows.table import Row, Table
from streams.limits.backlog import Backlog, Depth, QueueCaps
from streams.runtime.processor import Record
from streams.serde.codec import BACKLOG
from streams.topology.limits import MaxQueued

_caps = lru_cache(maxsize=4)(QueueCaps)


def backlog(connection: sqlite3.Connection, max_queued: tuple[MaxQueued, ...]) -> Backlog:
    """Return the depths as the dispatcher published them last."""
    found = Backlog(_caps(max_queued))
    for partition, record in connection.execute("SELECT part, record FROM backlog"):
        found.hear(partition, BACKLOG.decode(record))
    return found


def depth_json(found: Depth) -> Json:
    """Return a depth beside its cap; `value` is null for all jobs together."""
    return {
        "scope": found.line.scope,
        "value": found.line.value or None,
        "jobs": found.jobs,
        "cap": found.cap,
        "full": found.is_full,
    }


def is_seen(principal: Principal, depth: Depth) -> bool:
    """Return whether a depth is of a tenant of the principal's, or it has all of them."""
    line = depth.line
    return principal.has_every_tenant or (line.scope == "tenant" and principal.covers(line.value))


def _row(record: Record) -> Row:
    return BACKLOG.decode(record.value).partition, record.value


TABLE = Table(
    name="backlog",
    topic="jobs.backlog",
    key="part INTEGER",
    columns="record BLOB NOT NULL",
    row=_row,
    belongs="TRUE",  # the caps of all tenants together hold for everybody
)
