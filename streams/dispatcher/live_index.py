"""The index of live jobs, read without decoding the jobs: `l` and job_id in the store `jobs`.

A value is a JSON array of the fields of `Live`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from streams.dispatcher.job import due_at
from streams.serde.job_states import SCHEDULED, TERMINAL
from streams.serde.keys import SEPARATOR, after
from streams.serde.records import Job
from streams.state.store import KeyValueStore

LIVE = b"l"


class Live(NamedTuple):
    """What derived state needs of a job that has not ended.

    - `at` (milliseconds) is when it became ready or, if it is scheduled, when it is due.
    - `begun` is True once a run of it was counted, as an attempt or as a loss.
    - `confirmed`: the worker of its lease has spoken for it.
    - `cancel`: why it is being cancelled while it runs.
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
    confirmed: bool
    cancel: str | None


def live(job: Job | None) -> Live | None:
    """The entry of a job; None if there is no job, or it has ended."""
    if job is None or job.status in TERMINAL:
        return None
    return Live(
        job.status,
        due_at(job) if job.status == SCHEDULED else job.ready_at,
        job.tenant_id,
        job.type,
        job.pool,
        job.priority,
        job.epoch,
        job.worker_id,
        job.attempts > 0 or job.lost > 0,
        job.confirmed,
        (job.cancel_reason or "cancelled") if job.cancel_requested else None,
    )


def live_key(job_id: str) -> bytes:
    """The key of a job's entry."""
    return LIVE + job_id.encode()


def dump(entry: Live) -> bytes:
    """An entry's value in the store."""
    return orjson.dumps(tuple(entry))


def entries(store: KeyValueStore, behind: str = "") -> Iterator[tuple[str, Live]]:
    """Every live job with its id, in the order of ids, starting after the id `behind`."""
    start = live_key(behind) + SEPARATOR if behind else LIVE
    for key, value in store.range(start, after(LIVE)):
        yield key[1:].decode(), Live(*orjson.loads(value))
