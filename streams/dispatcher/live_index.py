"""The index of the jobs' rows: the live ones, and the finished ones in the order of their ends.

The keys lie beside the rows (`state/indexed`): `l` job_id holds a JSON array of the fields of
`Live`; `e` time job_id, empty, says when a job ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from streams.dispatcher.due import DueSpace
from streams.errors import PoisonRecord
from streams.serde.codec import JOB
from streams.serde.job_states import DUE_LATER, TERMINAL
from streams.serde.keys import SEPARATOR, after
from streams.serde.records import Job
from streams.state.indexed import INDEX, Index
from streams.state.store import Changes, KeyValueStore

_LIVE = INDEX + b"l"
ENDED = DueSpace(INDEX + b"e")


class Live(NamedTuple):
    """What derived state needs of a job that has not ended.

    - `at` (milliseconds) is when it became ready or, if it goes on later, when it is due
      (0: no time is set).
    - `confirmed`: the worker of its lease has spoken for it.
    - `cancel`: why it is being cancelled while it runs.
    - `keys`: by what limits count it (`limits/keys.py`).
    """

    status: str
    at: int
    tenant_id: str
    type: str
    pool: str
    priority: str
    epoch: int
    worker_id: str | None
    confirmed: bool
    cancel: str | None
    keys: tuple[tuple[str, str], ...] = ()


def live(job: Job | None) -> Live | None:
    """The entry of a job; None if there is no job, or it has ended."""
    if job is None or job.status in TERMINAL:
        return None
    return Live(
        job.status,
        job.due_at or 0 if job.status in DUE_LATER else job.ready_at,
        job.tenant_id,
        job.type,
        job.pool,
        job.priority,
        job.epoch,
        job.worker_id,
        job.confirmed,
        (job.cancel_reason or "cancelled") if job.cancel_requested else None,
        tuple((each.limit, each.key) for each in job.limit_keys) if job.limit_keys else (),
    )


def changes(before: Job | None, after_: Job | None) -> Changes:
    """How the index follows a job's row from one state to the next (None: there is no row)."""
    old, new = _entry(before), _entry(after_)
    if old == new:
        return {}
    return {**({old[0]: None} if old else {}), **({new[0]: new[1]} if new else {})}


def derive(key: bytes, value: bytes) -> Changes:
    """The entry of a row that is read from the topic `jobs`; one that is no job's row has none."""
    try:
        fields = JOB.read(value)
    except PoisonRecord:
        return {}
    job_id, updated_at = fields["job_id"], fields["updated_at"]
    if job_id.encode() != key or updated_at < 0:
        return {}
    if fields["status"] in TERMINAL:  # most rows: no `Job` is made of them
        return {ENDED.key(updated_at, job_id): b""}
    return changes(None, JOB.decode(value))


LIVE_AND_ENDED = Index(f"1: {' '.join(Live._fields)}", derive)
"""Raise the number if the keys or the meaning of a field change, but not the fields' names."""


def entries(store: KeyValueStore, behind: str = "") -> Iterator[tuple[str, Live]]:
    """Every live job with its id, in the order of ids, starting after the id `behind`."""
    start = _LIVE + behind.encode() + SEPARATOR if behind else _LIVE
    for key, value in store.range(start, after(_LIVE)):
        *fields, keys = orjson.loads(value)
        yield key[len(_LIVE) :].decode(), Live._make((*fields, tuple(map(tuple, keys))))


def dump(job_id: str, entry: Live) -> tuple[bytes, bytes]:
    """The key and value of a live job's entry."""
    return _LIVE + job_id.encode(), orjson.dumps(tuple(entry))


def _entry(job: Job | None) -> tuple[bytes, bytes] | None:
    """The key and value of a job's entry; None if there is no job."""
    if job is None:
        return None
    entry = live(job)
    if entry is None:
        return ENDED.key(job.updated_at, job.job_id), b""
    return dump(job.job_id, entry)
