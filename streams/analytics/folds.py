"""What a record of each topic adds to the tables: plain functions, one a topic.

An event is counted when it is read, once, since each is on `events` once. All other figures follow
the *newest* record of a job, an effect or a duplicate: what its mark says was counted before is
taken back. So they do not depend on how many records compaction has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from streams.analytics.figures import Figures
from streams.analytics.partition import CountedPartition
from streams.serde.codec import DUPLICATE, ENVELOPE, JOB, LEDGER_ENTRY
from streams.serde.effect_scopes import is_shared
from streams.serde.job_states import PENDING, TERMINAL

Fold = Callable[[CountedPartition, bytes, bytes | None, int], int]
"""Takes a partition's tables, the record's key and value, and its time in milliseconds.

Returns when the record was made by the broker's clock, 0 if it does not tell: the time of a record
on `jobs` is its writer's, whose clock may be wrong. Raises DecodeError for a record that cannot be
read, before it changes anything."""

_MOST_DUPLICATES = 2**32 - 1
"""Dedup counts no further; a sum of larger numbers would not fit into the 64 bits of a row."""

DIRECT = "-"
"""The source of a job that was submitted without an event; its type is the job's."""


def event(tables: CountedPartition, key: bytes, value: bytes | None, at: int) -> int:
    """Count an event, and its subject, in the minute at which a broker took its delivery in."""
    read = ENVELOPE.read(value)
    tenant_id, source, subject = read["tenant_id"], read["source"], read["subject"]
    for figures in tables.figures(tenant_id, at, source, read["event_type"]):
        figures.events += 1
        if subject is not None:
            figures.subjects.add(tenant_id, source, subject)
    return at


def duplicate(tables: CountedPartition, key: bytes, value: bytes | None, at: int) -> int:
    """Count the redeliveries that an event's newest count has more than the one before it."""
    if value is None:
        return 0
    read = DUPLICATE.read(value)
    first_at, last_at = read["first_at"], read["last_at"]
    count = min(int(read["count"]), _MOST_DUPLICATES)
    mark = (key, b"%d" % first_at)
    more = count - int(tables.mark(first_at, *mark) or b"0")
    if more <= 0 or not tables.keeps(first_at):
        return int(last_at)
    tables.set_mark(first_at, b"%d" % count, *mark)
    kind = (read["source"] or DIRECT, read["event_type"] or DIRECT)
    for figures in tables.figures(read["tenant_id"], last_at, *kind):
        figures.redeliveries += more
    return int(last_at)


def job(tables: CountedPartition, key: bytes, value: bytes | None, at: int) -> int:
    """Count a job's end, and the time to it, in the minute of its event or submission."""
    if value is None:
        tables.wait(key, None)
        return 0
    read = JOB.read(value)
    about, event_time, status = read["event"], read["event_time"], read["status"]
    kind = (about["source"], about["event_type"]) if about else (DIRECT, read["type"])
    who = (read["tenant_id"], *kind)
    tables.wait(key, (*who, read["ready_at"]) if status == PENDING else None)
    took = max(0, read["updated_at"] - event_time)
    ended = [status, took] if status in TERMINAL else None
    mark = (key, b"%d" % read["incarnation"])
    before = orjson.loads(tables.mark(event_time, *mark) or b"null")
    if ended != before:
        tables.set_mark(event_time, None if ended is None else orjson.dumps(ended), *mark)
        _end(tables.figures(who[0], event_time, *kind), before, ended)
    return int(read["updated_at"])


def _end(rows: Iterator[Figures], before: list[Any] | None, ended: list[Any] | None) -> None:
    for figures in rows:
        for end, times in ((before, -1), (ended, 1)):
            if end is not None:
                figures.outcome(end[0], times)
                figures.took.add(end[1], times)


def effect(tables: CountedPartition, key: bytes, value: bytes | None, at: int) -> int:
    """Count an effect under its newest status, in the minute in which it was first claimed."""
    if value is None:
        return 0
    read = LEDGER_ENTRY.read(value)
    if is_shared(read["action"]):  # a job's note of an effect that has an entry of its own
        return int(read["updated_at"])
    claimed_at, status = read["first_claimed_at"], read["status"]
    before, updated_at = tables.mark(claimed_at, key), int(read["updated_at"])
    if before == status.encode():
        return updated_at
    tables.set_mark(claimed_at, status.encode(), key)
    tool = read["action"].partition("/")[0]
    for figures in tables.figures(read["tenant_id"], claimed_at, tool):
        if before is not None:
            figures.outcome(before.decode(), -1)
        figures.outcome(status)
    return updated_at


FOLDS: dict[str, Fold] = {"events": event, "duplicates": duplicate, "jobs": job, "ledger": effect}
"""By the topic that each reads."""
