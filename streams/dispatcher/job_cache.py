"""Remembers the jobs that were written last, so that they are not decoded again.

A job is looked up by its id *and* the bytes that its store holds now. So the cache is never wrong,
whatever was undone, restored or written by another process.
"""

from __future__ import annotations

from streams.serde.codec import JOB
from streams.serde.records import Job

_MOST = 1_000
_LARGEST_BYTES = 2048
"""A larger job is decoded each time. The two limits bound a partition's cache to about 4 MB of
typical jobs, or 10 MB of the largest ones."""


class JobCache:
    """Decodes and encodes the jobs of one partition."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, Job]] = {}

    def decode(self, job_id: str, value: bytes) -> Job:
        """The job in these bytes."""
        known = self._known.get(job_id)
        return known[1] if known is not None and known[0] == value else JOB.decode(value)

    def encode(self, job: Job) -> bytes:
        """The bytes of a job, which are likely to be decoded next."""
        value = JOB.encode(job)
        self._known.pop(job.job_id, None)
        if len(value) <= _LARGEST_BYTES:
            self._known[job.job_id] = value, job
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
        return value

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended, since it is hardly asked for any more."""
        self._known.pop(job_id, None)
