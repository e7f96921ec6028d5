"""What happened in each minute, by tenant: events, jobs, deliveries and dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from streams.api.dead_letters import table as dead_letters
from streams.api.deliveries import attempts_table as attempts
from streams.api.duplicates import table as duplicates
from streams.api.events import table as events
from streams.api.jobs import table as jobs
from streams.api.rows.table import Row
from streams.api.rows.tally import MINUTE_MS, Added, Count, Tally
from streams.serde.job_states import CANCELLED, IN_DEAD_LETTERS, SUCCEEDED

_ENDS = {SUCCEEDED: "succeeded", CANCELLED: "cancelled", **dict.fromkeys(IN_DEAD_LETTERS, "failed")}
"""The number of the jobs that ended in a state."""
ENDED = tuple(dict.fromkeys(_ENDS.values()))
"""The numbers of the jobs that ended, however they did."""


def _event(now: Row, _: Row | None) -> Iterator[Added]:
    yield now[0], "events", 1


def _duplicates(now: Row, before: Row | None) -> Iterator[Added]:
    """Count the duplicates that came since the row was written, in the same window of dedup."""
    at, first_at, dropped = now
    known = before[2] if before is not None and before[1] == first_at else 0
    yield at, "duplicates", max(0, dropped - known)


def _job(now: Row, before: Row | None) -> Iterator[Added]:
    """Count a job that was made, and one that ended.

    One that lives again under its id was made at another time. One that has ended may be written
    again, with the time of its end.
    """
    updated_at, created_at, status = now
    if before is None or before[1] != created_at:
        yield created_at, "jobs", 1
    if status in _ENDS and (before is None or before[::2] != now[::2]):
        yield updated_at, _ENDS[status], 1


def _attempt(now: Row, _: Row | None) -> Iterator[Added]:
    at, failed = now
    yield at, "failed_attempts" if failed else "delivered", 1


def _letter(now: Row, before: Row | None) -> Iterator[Added]:
    """Count a letter that is new, or dead again; not one that was marked as dealt with."""
    if before != now:
        yield now[0], "dead_letters", 1


TALLY = Tally(
    name="minutes",
    numbers=(
        "events",
        "duplicates",
        "jobs",
        "succeeded",
        "failed",
        "cancelled",
        "delivered",
        "failed_attempts",
        "dead_letters",
    ),
    counts=(
        Count(events.TABLE, ("at",), _event, look_back=False),
        Count(duplicates.TABLE, ("at", "first_at", "dropped"), _duplicates),
        Count(jobs.TABLE, ("updated_at", "created_at", "status"), _job),
        Count(attempts.TABLE, ("at", "failed"), _attempt, look_back=False),
        Count(dead_letters.TABLE, ("at",), _letter),
    ),
    kept_ms=120 * MINUTE_MS,
)
