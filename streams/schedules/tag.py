"""The tag of a schedule: it names what people have set, and not where the schedule stands."""

from __future__ import annotations

import hashlib

import orjson

from streams.serde.records import ScheduleRow

NONE = ""
"""In place of a tag: there is no such schedule."""
_LENGTH = 32


def tag_of(row: ScheduleRow | None) -> str | None:
    """Return the tag of a schedule; None if there is none."""
    if row is None:
        return None
    settings = (row.created_at, row.generation, row.spec, row.paused, row.note, row.by, row.app)
    return hashlib.sha256(orjson.dumps(settings)).hexdigest()[:_LENGTH]
