"""The job types that are known to be handled, against which a submission's type is checked.

A type need not be declared. So a type counts as known if the topology names it, if a worker has
announced it, or if a job of it was leased.
"""

from __future__ import annotations

import difflib
import sqlite3

from streams.api.job_types.table import type_names
from streams.api.rows.table import status_in
from streams.serde.job_states import AFTER_RUN
from streams.topology.model import Topology

_LOOKED_AT = 100
"""So many of the oldest and of the newest jobs of a type are looked at."""
_MOST_TYPES = 500
_MOST_NEAR = 50
_RAN = status_in(*AFTER_RUN)
_ALL_TYPES = """
WITH RECURSIVE found(type) AS (
  SELECT min(type) FROM jobs
  UNION ALL SELECT (SELECT min(type) FROM jobs WHERE type > found.type) FROM found
  WHERE found.type IS NOT NULL)
SELECT type FROM found WHERE type IS NOT NULL LIMIT ?
"""


def doubt_about(connection: sqlite3.Connection, topology: Topology, type_: str) -> str | None:
    """Return why a type may be misspelled, with the nearest known types; None for a known type."""
    declared = {*topology.job_types, *topology.routed_types, *type_names(connection)}
    if type_ in declared or _was_leased(connection, type_):
        return None
    types = [row[0] for row in connection.execute(_ALL_TYPES, (_MOST_TYPES,))]
    near = difflib.get_close_matches(type_, sorted(declared.union(types)), n=_MOST_NEAR)
    nearest = [each for each in near if each in declared or _was_leased(connection, each)][:3]
    hint = f"Did you mean {' or '.join(map(repr, nearest))}? " if nearest else ""
    return (
        f"neither the topology nor a worker names a job type {type_!r}, and no job of it has run "
        f"yet. {hint}If a worker handles it, all is well; otherwise the job is dead after "
        f"{topology.unhandled_ms / 3_600_000:g} h"
    )


def _was_leased(connection: sqlite3.Connection, type_: str) -> bool:
    return any(_is_leased_among(connection, type_, order) for order in ("ASC", "DESC"))


def _is_leased_among(connection: sqlite3.Connection, type_: str, order: str) -> bool:
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM (SELECT status FROM jobs WHERE type = ?"  # noqa: S608  constants
        f" ORDER BY created_at {order}, job_id {order} LIMIT ?) WHERE {_RAN})",
        (type_, _LOOKED_AT),
    ).fetchone()
    return bool(row[0])
