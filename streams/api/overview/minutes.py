"""The last hour by minute, and the rates of the last 60 seconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from streams.api.overview.minutes_table import TALLY
from streams.api.rows.json_values import Json
from streams.api.rows.restricted import RestrictedConnection
from streams.api.rows.tally import ALL_TENANTS, MINUTE_MS
from streams.http.moments import rfc3339

SHOWN = 60
"""So many minutes are shown, the present one among them."""
RATE_SECONDS = MINUTE_MS // 1000
"""The time over which a rate is taken."""

_SUMS = ", ".join(f"sum({number})" for number in TALLY.numbers)

Numbers = Mapping[str, int]
"""What happened in a minute, by the names of `TALLY.numbers`."""

_NOTHING: Numbers = dict.fromkeys(TALLY.numbers, 0)


@dataclass(frozen=True, slots=True)
class Minutes:
    """Minutes in order; the last one is the present minute, which is not over at `now` (ms)."""

    now: int
    of: tuple[Numbers, ...]

    def rate(self, *numbers: str) -> float:
        """Return how many there were in a second of the last minute, of these numbers together.

        The last 60 seconds have a part of the minute before, in which things are taken to have
        happened evenly.
        """
        before, present = self.of[-2:]
        part = 1 - self.now % MINUTE_MS / MINUTE_MS
        found = sum(present[number] + part * before[number] for number in numbers)
        return round(found / RATE_SECONDS, 2)


def minutes(connection: sqlite3.Connection, now: int, most: int = SHOWN) -> Minutes:
    """Return what happened in the last minutes to the reader's tenants."""
    first = _first(now, most)
    found = {
        at: dict(zip(TALLY.numbers, sums, strict=True)) for at, *sums in _rows(connection, first)
    }
    starts = range(first, first + most * MINUTE_MS, MINUTE_MS)
    return Minutes(now, tuple(found.get(start, _NOTHING) for start in starts))


def minutes_json(found: Minutes) -> Json:
    """Return the minutes as the API shows them."""
    return {
        "since": rfc3339(_first(found.now, len(found.of))),
        "until": rfc3339(found.now),
        "seconds": RATE_SECONDS,
        "series": series_json(found.of),
    }


def series_json(of: tuple[Numbers, ...]) -> Json:
    """Return a list for each number, with its values in the order of the minutes."""
    return {
        "events": [each["events"] for each in of],
        "duplicates": [each["duplicates"] for each in of],
        "jobs": [each["jobs"] for each in of],
        "succeeded": [each["succeeded"] for each in of],
        "failed": [each["failed"] for each in of],
        "cancelled": [each["cancelled"] for each in of],
        "delivered": [each["delivered"] for each in of],
        "failed_attempts": [each["failed_attempts"] for each in of],
        "dead_letters": [each["dead_letters"] for each in of],
    }


def _rows(connection: sqlite3.Connection, first: int) -> sqlite3.Cursor:
    """Return the sums of each minute from one on; of all tenants, they are kept as such."""
    whose = "TRUE" if isinstance(connection, RestrictedConnection) else "tenant_id = ?"
    values = (first,) if whose == "TRUE" else (first, ALL_TENANTS)
    return connection.execute(
        f"SELECT at, {_SUMS} FROM minutes WHERE at >= ? AND {whose} GROUP BY at",  # noqa: S608  constants
        values,
    )


def _first(now: int, most: int) -> int:
    """Return when the first of so many minutes begins, of which the last one is the present one."""
    return now // MINUTE_MS * MINUTE_MS - (most - 1) * MINUTE_MS
