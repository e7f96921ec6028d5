"""The whole cluster in numbers; each that a person acts on is that of the list with its items."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from streams.api.backlog import table as backlog
from streams.api.dead_letters import table as dead_letters
from streams.api.deliveries import table as deliveries
from streams.api.effects import unknown_table as unknown_effects
from streams.api.quarantine import table as quarantine
from streams.api.rows.table import status_in
from streams.serde.job_states import PENDING
from streams.topology.limits import MaxQueued


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs and deliveries by status, and what waits.

    `oldest_ready_at` is in milliseconds, None with no job ready. `oldest_due_at` is when the first
    pending delivery was or will be due, None with no delivery pending. `dead_letters`,
    `quarantined` and `unknown_effects` wait for a person. `full_backlogs` are the caps of
    `max_queued` that are reached.
    """

    jobs: dict[str, int]
    dead_letters: int
    oldest_ready_at: int | None
    deliveries: dict[str, int] = field(default_factory=dict)
    oldest_due_at: int | None = None
    quarantined: int = 0
    unknown_effects: int = 0
    full_backlogs: int = 0


def counts(connection: sqlite3.Connection, max_queued: tuple[MaxQueued, ...] = ()) -> Counts:
    """Count what the lists show, and find the oldest job and delivery that wait."""
    by_status = connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
    (oldest,) = connection.execute(
        f"SELECT min(ready_at) FROM jobs WHERE {status_in(PENDING)}"  # noqa: S608  constants
    ).fetchone()
    return Counts(
        dict(by_status),
        dead_letters.LISTING.count(connection, dead_letters.FOR_A_PERSON),
        oldest,
        deliveries.by_status(connection),
        deliveries.oldest_due(connection),
        quarantine.LISTING.count(connection, quarantine.FOR_A_PERSON),
        unknown_effects.LISTING.count(connection),
        sum(each.is_full for each in backlog.backlog(connection, max_queued).known()),
    )
