"""The table of one partition's jobs: every change of a job goes through `put`.

A job that changes several times in a transaction is written once, by `flush`. What is derived from
jobs follows each change at once, and each change that is undone.

The store `jobs` holds the rows, by job_id, and their index (`live_index`). The public topic `jobs`
is its changelog, so a row that is written is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from streams.dispatcher.due import DueEntry
from streams.dispatcher.live_index import ENDED, Live, changes, entries, live
from streams.dispatcher.part import Change, RowChange
from streams.errors import PoisonRecord
from streams.runtime.processor import Context
from streams.serde.codec import JOB
from streams.serde.decoded_cache import DecodedCache
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job
from streams.serde.sizes import MAX_JOB_BYTES

_LARGE_BYTES = MAX_JOB_BYTES // 2


class Table:
    """The jobs of one partition, with what the present transaction changed.

    `changed` is called with each change, and `written` as rows of workflows are written.
    """

    def __init__(
        self,
        ctx: Context,
        changed: Callable[[Change], None],
        written: Callable[[Sequence[RowChange]], None],
    ) -> None:
        self._ctx = ctx
        self._store = ctx.store("jobs")
        self._changed = changed
        self._written = written
        self._cache = DecodedCache(JOB)
        self._rows: dict[str, Job] = {}  # changed and not yet written
        self._stored: dict[str, Job | None] = {}  # of changed jobs: the rows in the store
        self._lives: dict[str, Job] = {}  # how the life before ended, if that was not written
        self._large = set[str]()  # jobs whose rows are large

    @property
    def has_large(self) -> bool:
        """Whether a small command might make a job too large."""
        return bool(self._large)

    def get(self, job_id: str) -> Job | None:
        """The job as it is now."""
        row = self._rows.get(job_id)
        if row is not None:
            return row
        value = self._store.get(job_id.encode())
        if value is None:
            return None
        if len(value) > _LARGE_BYTES:
            self._large.add(job_id)
        return self._cache.decode(job_id, value)

    def put(self, job: Job) -> None:
        """Set a job's new state, to be written by `flush`."""
        job_id, known = job.job_id, self.get(job.job_id)
        earlier = self._rows.get(job_id)
        if earlier is not None and earlier.incarnation != job.incarnation:
            self._publish(earlier)
        change = Change(job_id, live(known), live(job))
        if not self._stored:
            self._ctx.on_commit(self._stored.clear)
        is_first = job_id not in self._stored
        if is_first:
            self._stored[job_id] = known
        self._ctx.on_undo(self._take_back, change, earlier, is_first)
        self._rows[job_id] = job
        self._changed(change)

    def refuse_large(self) -> None:
        """Check that what changed leaves room for what the dispatcher adds to a job later.

        Raises:
            PoisonRecord: a job has grown beyond what a record of `jobs` holds.
        """
        for job_id, job in self._rows.items():
            size = len(JOB.encode(job))
            if size > max(MAX_JOB_BYTES, len(self._store.get(job_id.encode()) or b"")):
                detail = f"{job_id} would take {size:,} bytes, more than {MAX_JOB_BYTES:,}"
                raise PoisonRecord("job_too_large", detail)

    def flush(self) -> None:
        """Write the jobs that changed."""
        rows, self._rows = self._rows, {}
        written: dict[bytes, bytes | None] = {}
        of_workflows: list[RowChange] = []
        for job_id, job in rows.items():
            change = RowChange(self._lives.pop(job_id, self._stored[job_id]), job)
            if change.is_of_workflow:
                of_workflows.append(change)
            value = written[job_id.encode()] = self._cache.encode(job_id, job)
            if len(value) > _LARGE_BYTES:
                self._large.add(job_id)
            written |= changes(self._stored[job_id], job)
            self._ctx.on_undo(self._stored.__setitem__, job_id, self._stored[job_id])
            self._stored[job_id] = job
            if job.status in TERMINAL:
                self._cache.forget(job_id)
                self._large.discard(job_id)
        if written:
            self._store.put_many(written)
        if of_workflows:
            self._written(of_workflows)

    def forget(self, job: Job) -> None:
        """Delete a finished job, here and on `jobs`."""
        earlier = self._rows.pop(job.job_id, None)
        if earlier is not None:
            self._ctx.on_undo(self._rows.__setitem__, job.job_id, earlier)
        stored = self._stored.get(job.job_id, job)
        if job.job_id in self._stored:
            self._ctx.on_undo(self._stored.__setitem__, job.job_id, stored)
            self._stored[job.job_id] = None
        self._store.put_many({job.job_id.encode(): None, **changes(stored, None)})
        if job.workflow_id is not None:
            self._written([RowChange(stored, None)])

    def drop_entry(self, key: bytes) -> None:
        """Delete an entry of the index that belongs to no row any more."""
        self._store.delete(key)

    def live(self, behind: str) -> Iterator[tuple[str, Live]]:
        """The live jobs of the last commit, in the order of ids, after the id `behind`."""
        return entries(self._store, behind)

    def finished(self, by: int, limit: int, behind: bytes) -> Iterator[DueEntry]:
        """At most `limit` jobs that had ended by a moment, after a key of the index."""
        return ENDED.due(self._store, by, limit, behind)

    def _publish(self, job: Job) -> None:
        """Write how a life ended in this transaction: `flush` writes only what its id is now."""
        before = self._lives.get(job.job_id, self._stored[job.job_id])
        self._ctx.forward("jobs", job.job_id.encode(), JOB.encode(job))
        self._ctx.on_undo(self._lives.pop, job.job_id, None)
        self._lives[job.job_id] = job
        change = RowChange(before, job)
        if change.is_of_workflow:
            self._written([change])

    def _take_back(self, change: Change, earlier: Job | None, is_first: bool) -> None:
        if is_first:
            self._stored.pop(change.job_id, None)
        if earlier is None:
            self._rows.pop(change.job_id, None)
        else:
            self._rows[change.job_id] = earlier
        self._changed(change.reversed())
