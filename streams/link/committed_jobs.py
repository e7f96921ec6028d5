"""Reads committed jobs for whoever answers requests, beside the thread of the stage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from streams.link.requests import NotOwned
from streams.serde.codec import JOB, STEP_RESULT
from streams.serde.keys import checkpoint_key
from streams.serde.records import Job, StepResult
from streams.state.indexed import INDEX

Read = Callable[[bytes], bytes | None]
"""The committed value of a key, as `Backend.get` returns it; safe in any thread until its close."""


_LARGEST_BYTES = 4096
_MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Stores:
    """The committed stores of one partition that the dispatcher has."""

    jobs: Read
    checkpoints: Read


class OwnedJobs:
    """`CommittedJobs` of the partitions that the stage's thread has opened and not yet closed.

    A store must not be closed while it is read: RocksDB's client then fails to close it, and the
    store counts as damaged. So no partition is closed during a read, which takes microseconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[int, Stores] = {}

    def opened(self, partition: int, stores: Stores) -> None:
        """Let a partition be read: its task is restored."""
        with self._lock:
            self._stores[partition] = stores

    def closed(self, partition: int) -> None:
        """Let a partition be read no more. Call this before its stores are closed or wiped."""
        with self._lock:
            self._stores.pop(partition, None)

    def job(self, partition: int, job_id: str) -> Job | None:
        """Return a job as the last commit left it."""
        key = job_id.encode()
        if key.startswith(INDEX):
            return None
        value = self._read(partition, lambda stores: stores.jobs(key))
        if value is None:
            return None
        return _remembered(value) if len(value) <= _LARGEST_BYTES else JOB.decode(value)

    def left(self, partition: int, job: Job, wait: str) -> StepResult | None:
        """Return what a finished wait or step of a job left."""
        key = checkpoint_key(job.job_id, job.incarnation, wait)
        value = self._read(partition, lambda stores: stores.checkpoints(key))
        return None if value is None else STEP_RESULT.decode(value)

    def _read(self, partition: int, read: Callable[[Stores], bytes | None]) -> bytes | None:
        with self._lock:
            stores = self._stores.get(partition)
            if stores is None:
                raise NotOwned(f"partition {partition} is not owned here")
            return read(stores)


@lru_cache(_MOST_REMEMBERED)
def _remembered(value: bytes) -> Job:
    """A job that tells of itself while it runs is asked for many times a second."""
    return JOB.decode(value)
