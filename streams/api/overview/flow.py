"""The flow: how much passes each stage, what is there now, and how long the oldest has waited."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.effects.table import IS_UNSETTLED
from streams.api.jobs.kept_back import IS_KEPT_BACK
from streams.api.overview.minutes import RATE_SECONDS, Minutes
from streams.api.overview.minutes_table import ENDED
from streams.api.overview.oldest import UNTOLD, Oldest, Waiting, is_told
from streams.api.rows.bounded import Bounded, bounded
from streams.api.rows.json_values import Json
from streams.api.rows.table import status_in
from streams.http.moments import rfc3339
from streams.serde import delivery_states, job_states


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the flow; `path` lists what is there.

    `passes` are the numbers of a minute that add up to what passes it. `here` are the rows that are
    there now, and `is_late` says that each of them has waited since it should have gone on, unless
    it waits on purpose.
    """

    name: str
    path: str
    passes: tuple[str, ...] = ()
    here: Waiting | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there at a stage: how many, and since when the oldest have waited."""

    here: Bounded | None = None
    oldest: Oldest = UNTOLD


_SCHEDULED = Waiting(
    "jobs",
    status_in(job_states.SCHEDULED),
    since="due_at",
    index="jobs_due",
)
_PENDING = Waiting(
    "jobs",
    status_in(job_states.PENDING),
    since="ready_at",
    index="jobs_ready",
    on_purpose=IS_KEPT_BACK,
)
_RUNNING = Waiting(
    "jobs",
    status_in(job_states.RUNNING),
    since="updated_at",
    index="jobs_running",
)
_UNSETTLED = Waiting(
    "effects",
    IS_UNSETTLED,
    since="first_claimed_at",
    index="effects_unsettled",
)
_TO_DELIVER = Waiting(
    "deliveries",
    status_in(delivery_states.PENDING),
    since="next_attempt_at",
    index="deliveries_due",
)

STAGES = (
    Stage("ingress", "/v1/events", passes=("events", "duplicates")),
    Stage("dedup", "/v1/duplicates", passes=("events",)),
    Stage("scheduler", "/v1/jobs?status=scheduled", here=_SCHEDULED, is_late=True),
    Stage("dispatcher", "/v1/jobs?status=pending", passes=("jobs",), here=_PENDING, is_late=True),
    Stage("workers", "/v1/jobs?status=running", passes=ENDED, here=_RUNNING),
    Stage("ledger", "/v1/effects", here=_UNSETTLED),
    Stage(
        "delivery",
        "/v1/deliveries?status=pending",
        passes=("delivered", "failed_attempts"),
        here=_TO_DELIVER,
        is_late=True,
    ),
)
"""In the order of the flow."""


def flow_json(connection: sqlite3.Connection, minutes: Minutes) -> Json:
    """Return the stages in the order of the flow, with the time over which rates are taken."""
    return {
        "rate_seconds": RATE_SECONDS,
        "stages": [stage_json(each, seen(connection, each), minutes) for each in STAGES],
    }


def seen(connection: sqlite3.Connection, stage: Stage) -> Seen:
    """Return what is at a stage now."""
    if stage.here is None:
        return Seen()
    here = stage.here
    found = bounded(connection, here.table, here.where)
    if not is_told(connection):
        return Seen(found)
    return Seen(found, here.oldest(connection))


def stage_json(stage: Stage, found: Seen, minutes: Minutes) -> Json:
    """Return a stage as the overview shows it; what is not known of it is null."""
    now, here, oldest = minutes.now, found.here, found.oldest
    late = 0.0 if oldest.late_since is None else max(0, now - oldest.late_since) / 1000
    has_waited = oldest.since is not None and oldest.since <= now
    return {
        "name": stage.name,
        "rate": minutes.rate(*stage.passes) if stage.passes else None,
        "count": None if here is None else here.count,
        "more": here is not None and here.more,
        "oldest_at": rfc3339(oldest.since) if has_waited else None,
        "lag_seconds": late if stage.is_late and oldest.is_told else None,
        "list": stage.path,
    }
