"""What the owners of shared limits have granted: places held by each partition, and next starts.

A grant tells all that its partition holds of a bucket, so the newest one counts.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from streams.api.rows.table import Row, Table, no_tombstone
from streams.limits.buckets import Bucket
from streams.runtime.processor import Record
from streams.serde.codec import LIMIT_GRANT

MOST = 20_000
"""So many buckets are looked at in one answer, at most."""

_PLACES, _STARTS = "places", "starts"
_IN_USE = "held > 0 OR next_at > 0"
_MOST, _LONGEST_MS = 1_000_000_000, 86_400_000
"""No owner grants more places or tells to wait for longer; other records must not stop a list."""


class Granted(NamedTuple):
    """How many places all partitions hold of a bucket, and when the next start is (ms; 0: now)."""

    held: int
    next_at: int


def granted(connection: sqlite3.Connection) -> dict[Bucket, Granted]:
    """Return what is granted of each bucket of a shared limit, of `MOST` of them at most."""
    rows = connection.execute(
        "SELECT name, value, sum(held), max(next_at) "  # noqa: S608  constants
        f"FROM limit_grants INDEXED BY limit_grants_in_use WHERE {_IN_USE} "
        "GROUP BY name, value LIMIT ?",
        (MOST,),
    )
    return {Bucket(name, "", value): Granted(held, at) for name, value, held, at in rows}


def _row(record: Record) -> Row:
    grant = LIMIT_GRANT.decode(record.value)
    key = grant.limit, grant.key, record.partition
    if not grant.incarnation:  # it is of starts
        wait = min(max(0, grant.wait_ms), _LONGEST_MS)
        next_at = record.timestamp + wait if wait else 0
        return *key, _STARTS, record.timestamp, 0, next_at
    held = min(max(0, grant.granted - grant.returned), _MOST)
    return *key, _PLACES, record.timestamp, held, 0


TABLE = Table(
    name="limit_grants",
    topic="limits.grants",
    key="name TEXT, value TEXT, part INTEGER, kind TEXT",
    columns="at INTEGER NOT NULL, held INTEGER NOT NULL, next_at INTEGER NOT NULL",
    row=_row,
    belongs="FALSE",  # it counts all tenants together
    indexes={"by_age": "(at)", "in_use": f"(name, value, held, next_at) WHERE {_IN_USE}"},
    split=no_tombstone,
    expires=True,
    reports_poison=False,  # the dispatcher reads this topic, too, and makes the dead letters
)
