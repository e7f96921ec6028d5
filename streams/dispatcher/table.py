"""The table of one partition's jobs: every change of a job goes through `put`.

A job that changes several times in a transaction is written and published once, by `flush`. What is
derived from jobs follows each change at once, and each change that is undone.

Keys in the store `jobs`: `j` job_id holds the job; `l` job_id its entry in the index of live jobs
(`live_index`); `x` time job_id incarnation says when to forget a finished job, and holds its tenant
and scope; `s` scope job_id names a replay that shares another job's scope.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.dispatcher.due import DueSpace
from streams.dispatcher.live_index import LIVE, Live, dump, live, live_key
from streams.dispatcher.part import Change
from streams.runtime.processor import Context
from streams.serde.codec import JOB
from streams.serde.decoded_cache import DecodedCache
from streams.serde.ids import scope_owner
from streams.serde.keys import SEPARATOR, after, join
from streams.serde.records import Job

_JOB, _SHARED, _EXPIRY = b"j", b"s", b"x"
EXPIRY = DueSpace(_EXPIRY)
KEYS = {
    _JOB: "jobs",
    LIVE: "the index of live jobs",
    _SHARED: "scopes that replays share",
    _EXPIRY: "when finished jobs are forgotten",
}


class Table:
    """The jobs of one partition, with what the present transaction changed.

    `changed` is called with each change; finished jobs are kept for `keep_ms`.
    """

    def __init__(self, ctx: Context, keep_ms: int, changed: Callable[[Change], None]) -> None:
        self._ctx = ctx
        self._store = ctx.store("jobs")
        self._keep_ms = keep_ms
        self._changed = changed
        self._cache = DecodedCache(JOB)
        self._rows: dict[str, Job] = {}  # changed and not yet written
        self._stored: dict[str, Live | None] = {}  # the entries in the store of changed jobs

    def get(self, job_id: str) -> Job | None:
        """The job as it is now."""
        row = self._rows.get(job_id)
        if row is not None:
            return row
        value = self._store.get(_JOB + job_id.encode())
        return None if value is None else self._cache.decode(job_id, value)

    def put(self, job: Job) -> None:
        """Set a job's new state, to be written by `flush`."""
        job_id = job.job_id
        earlier = self._rows.get(job_id)
        change = Change(job_id, live(self.get(job_id)), live(job))
        if earlier is not None and earlier.incarnation != job.incarnation:
            self._write(earlier)  # it ended in this transaction, and is forgotten in its turn
        if not self._stored:
            self._ctx.on_commit(self._stored.clear)
        is_first = job_id not in self._stored
        if is_first:
            self._stored[job_id] = change.before
        self._ctx.on_undo(self._take_back, change, earlier, is_first)
        self._rows[job_id] = job
        self._changed(change)

    def flush(self) -> None:
        """Write and publish the jobs that changed."""
        rows, self._rows = self._rows, {}
        for job in rows.values():
            self._write(job)

    def in_scope(self, scope: str) -> list[Job]:
        """Every job that works in a scope: its owner, and the replays that share it."""
        prefix = _SHARED + join(scope) + SEPARATOR
        keys = [key for key, _ in self._store.range(prefix, after(prefix))]
        sharers = [key[len(prefix) :].decode() for key in keys]
        found = map(self.get, dict.fromkeys([scope_owner(scope), *sharers]))
        return [job for job in found if job is not None and job.scope == scope]

    def share(self, job: Job) -> None:
        """Note that a replay shares another job's scope: effects stay while either job is kept."""
        self._store.put(_SHARED + join(job.scope, job.job_id), b"")

    def unshare(self, job_id: str, scope: str) -> None:
        """Forget that a job worked in a scope."""
        if scope_owner(scope) != job_id:
            self._store.delete(_SHARED + join(scope, job_id))

    def forget(self, job: Job) -> None:
        """Delete a finished job, here and on `jobs`."""
        key = job.job_id.encode()
        earlier = self._rows.pop(job.job_id, None)
        self._ctx.on_undo(self._put_back, job.job_id, earlier)
        self._store.delete(_JOB + key)
        self._ctx.forward("jobs", key, None)

    def is_kept(self, job: Job) -> bool:
        """Whether a finished job's time has not come, because it was written again."""
        return job.updated_at + self._keep_ms > self._ctx.now

    def _write(self, job: Job) -> None:
        key, value = job.job_id.encode(), self._cache.encode(job.job_id, job)
        self._store.put(_JOB + key, value)
        self._ctx.forward("jobs", key, value)
        stored, entry = self._stored.get(job.job_id), live(job)
        if entry is None:
            self._cache.forget(job.job_id)
            self._expire(job)
        if entry != stored:
            self._index(job.job_id, entry)
            self._ctx.on_undo(self._stored.__setitem__, job.job_id, stored)
            self._stored[job.job_id] = entry

    def _index(self, job_id: str, entry: Live | None) -> None:
        if entry is None:
            self._store.delete(live_key(job_id))
        else:
            self._store.put(live_key(job_id), dump(entry))

    def _expire(self, job: Job) -> None:
        due = self._ctx.now + self._keep_ms
        key = EXPIRY.key(due, job.job_id, str(job.incarnation))
        self._store.put(key, join(job.tenant_id, job.scope))

    def _take_back(self, change: Change, earlier: Job | None, is_first: bool) -> None:
        self._put_back(change.job_id, earlier)
        if is_first:
            self._stored.pop(change.job_id, None)
        self._changed(change.reversed())

    def _put_back(self, job_id: str, earlier: Job | None) -> None:
        if earlier is None:
            self._rows.pop(job_id, None)
        else:
            self._rows[job_id] = earlier
