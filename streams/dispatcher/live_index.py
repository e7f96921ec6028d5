"""An index of live jobs, read without decoding the jobs: `l` and job_id in the store `jobs`.

A value is a JSON array of the fields of `Live`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from streams.dispatcher.jobs import due_at
from streams.serde.keys import SEPARATOR, after
from streams.serde.records import Job
from streams.state.store import KeyValueStore

_LIVE = b"l"


class Live(NamedTuple):
    """A job that has not ended.

    `at` (milliseconds) is when it became ready or, if it is scheduled, when it is due. `begun` is
    True once a run of it was counted, as an attempt or as a loss.
    """

    status: str
    at: int
    tenant_id: str
    type: str
    pool: str
    priority: str
    epoch: int
    worker_id: str | None
    begun: bool


def live_key(job_id: str) -> bytes:
    """The key of a job's entry."""
    return _LIVE + job_id.encode()


def encode(job: Job) -> bytes:
    """The entry of a job."""
    return dump(_of(job))


def dump(live: Live) -> bytes:
    """An entry's value in the store."""
    return orjson.dumps(tuple(live))


def entries(store: KeyValueStore, behind: str = "") -> Iterator[tuple[str, Live]]:
    """Every live job with its id, in the order of ids, starting after the id `behind`."""
    start = live_key(behind) + SEPARATOR if behind else _LIVE
    for key, value in store.range(start, after(_LIVE)):
        yield key[1:].decode(), _load(value)


def look_up(store: KeyValueStore, job_ids: Sequence[str]) -> list[tuple[str, Live | None]]:
    """The entries of some jobs; None for a job that is unknown or has ended."""
    keys = [live_key(job_id) for job_id in job_ids]
    found = zip(job_ids, store.get_many(keys), strict=True)
    return [(job_id, None if value is None else _load(value)) for job_id, value in found]


def _load(value: bytes) -> Live:
    return Live(*orjson.loads(value))


def _of(job: Job) -> Live:
    at = due_at(job) if job.status == "scheduled" else job.ready_at
    return Live(
        job.status,
        at,
        job.tenant_id,
        job.type,
        job.pool,
        job.priority,
        job.epoch,
        job.worker_id,
        job.attempts > 0 or job.lost > 0,
    )
