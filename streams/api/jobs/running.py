"""How many jobs run by bucket, and some of them, counted when somebody asks.

If the dispatcher published this, each lease would cost more.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection
from functools import cached_property

from streams.api.pauses.paused import Pauses, all_pauses
from streams.api.rows.table import status_in
from streams.api.tenants.table import limits_of
from streams.limits.buckets import Bucket, Buckets, Candidate
from streams.limits.keys import from_text
from streams.serde import job_states
from streams.serde.records import Job
from streams.topology.model import Topology

_SHOWN = 3
IS_RUNNING = status_in(job_states.RUNNING)
_SOME = "SELECT tenant_id, type, pool, limit_keys, count(*), min(job_id), max(job_id) FROM jobs"
_BY = "GROUP BY tenant_id, type, pool, limit_keys"
_COUNTED = (
    f"{_SOME} WHERE {IS_RUNNING} AND "  # noqa: S608  constants
    f"part = (SELECT part FROM jobs WHERE job_id = ?) {_BY}"
)
_COUNTED_OVERALL = f"{_SOME} INDEXED BY jobs_running WHERE {IS_RUNNING} {_BY}"


class RunningJobs:
    """Counts of the running jobs by bucket; the jobs of one answer are counted once."""

    def __init__(self, connection: sqlite3.Connection, topology: Topology) -> None:
        self._connection = connection
        self._buckets = Buckets(topology.limits, circuits=bool(topology.breakers))
        self._known: set[str] = set()
        self._counts: dict[str, Counter[Bucket]] = {}
        self._overall: Counter[Bucket] | None = None
        self._holders: dict[Bucket, set[str]] = defaultdict(set)

    @cached_property
    def pauses(self) -> Pauses:
        """What is paused."""
        return all_pauses(self._connection)

    @property
    def shared(self) -> Collection[str]:
        """The names of limits that all partitions share."""
        return self._buckets.shared

    def buckets_of(self, tenant_id: str) -> Buckets:
        """What finds the buckets of a tenant's jobs, and of all jobs that share them."""
        if tenant_id not in self._known:
            self._known.add(tenant_id)
            if own := limits_of(self._connection, tenant_id):
                self._buckets.set_own(tenant_id, own)
        return self._buckets

    def beside(self, job: Job) -> Counter[Bucket]:
        """How many jobs run in each bucket: in a job's partition, or overall if it is shared."""
        if job.tenant_id not in self._counts:
            buckets = self.buckets_of(job.tenant_id)
            found = self._counted(buckets, _COUNTED, job.job_id)
            self._counts[job.tenant_id] = found | self._of_shared(buckets)
        return self._counts[job.tenant_id]

    def holders(self, bucket: Bucket) -> list[str]:
        """Some of the jobs that run in a bucket of one tenant; none of one of several tenants."""
        return sorted(self._holders.get(bucket, ()))[:_SHOWN]

    def _of_shared(self, buckets: Buckets) -> Counter[Bucket]:
        """How many run in the buckets of limits that all partitions share."""
        shared = buckets.shared
        if self._overall is None:
            found = self._counted(buckets, _COUNTED_OVERALL) if shared else Counter[Bucket]()
            kept = {bucket: jobs for bucket, jobs in found.items() if bucket.limit in shared}
            self._overall = Counter(kept)
        return self._overall

    def _counted(self, buckets: Buckets, query: str, *values: str) -> Counter[Bucket]:
        found = Counter[Bucket]()
        for name, type_, pool, keys, jobs, *some in self._connection.execute(query, values):
            for bucket in buckets.all(Candidate(name, type_, pool, from_text(keys))):
                found[bucket] += jobs
                if bucket.tenant_id:
                    self._holders[bucket].update(some)
        return found
