"""Keeps the ready and running jobs of one partition, derived from the job records.

No operation costs more than O(log n) for each job. Journals name the jobs whose place changed, so
that only these are looked up again when writes are taken back.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator

from streams.dispatcher.active_leases import ActiveLease
from streams.dispatcher.live_index import Live
from streams.dispatcher.worker_credits import Worker
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.fairness.limits import Concurrency
from streams.fairness.ready_queue import Ready, ReadyQueue
from streams.serde.records import Job
from streams.topology.model import Topology


class RunQueue:
    """The ready queues of all pools, the living leases, and the caps that the leases fill.

    `recent` are the jobs that changed their place since `mark`, `changed` those since `committed`.
    """

    def __init__(self, topology: Topology, registry: WorkerRegistry) -> None:
        self._topology = topology
        self.registry = registry
        self.queues: dict[str, ReadyQueue] = {}
        """The queues by pool; the pool that was served longest ago comes first."""
        self._served: list[str] = []  # pools as they were served since the last commit
        self._handled: dict[str, set[str]] = {}
        self._blocked: set[str] = set()
        self._caps = Concurrency(topology.limits)
        self.recent: set[str] = set()
        self._earlier: set[str] = set()
        self._ended: dict[str, ActiveLease] = {}  # leases that are over since the last commit

    @property
    def changed(self) -> set[str]:
        """Jobs that changed their place since the last commit."""
        return self._earlier | self.recent

    def mark(self) -> None:
        """Note that a record or a batch begins."""
        self._earlier |= self.recent
        self.recent = set()

    def committed(self) -> None:
        """Note that all changes so far are durable."""
        self._earlier.clear()
        self.recent.clear()
        self._ended.clear()
        for pool in self._served:
            self.queues[pool] = self.queues.pop(pool)
        self._served.clear()

    def touch(self, job_id: str) -> None:
        """Note another change of a job, so that the job is looked up again if it is undone."""
        self.recent.add(job_id)

    def ready(self, job: Job) -> None:
        """Let a job wait for a slot."""
        self.recent.add(job.job_id)
        entry = Ready(job.ready_at, job.job_id, job.tenant_id, job.type, job.priority)
        self._queue(job.pool).push(entry)

    def unready(self, job: Job) -> None:
        """Remove a job from those that wait for a slot."""
        self.recent.add(job.job_id)
        self._queue(job.pool).remove(job.job_id)

    def block(self, tenant_id: str) -> None:
        """Lease none of a tenant's jobs until it is unblocked; its running jobs go on."""
        self._blocked.add(tenant_id)
        self._capped(tenant_id)

    def unblock(self, tenant_id: str) -> None:
        """Lease the tenant's jobs again."""
        self._blocked.discard(tenant_id)
        self._capped(tenant_id)

    def grant(self, job: Job, worker: Worker) -> None:
        """Give one of the worker's credits to the job."""
        self.recent.add(job.job_id)
        self.registry.granted(job, worker)
        self._started(self.registry.running[job.job_id])

    def off(self, job_id: str) -> None:
        """Remove a lease that is over, and free its caps."""
        lease = self.registry.over(job_id)
        if lease is not None:
            self.recent.add(job_id)
            self._ended.setdefault(job_id, lease)
            self._caps.ended(lease.tenant_id, lease.type)
            self._queue(lease.pool).ended(lease.tenant_id)
            self._capped(lease.tenant_id, but=lease.pool)

    def restore(
        self, job_id: str, live: Live | None, now: float, whole_term: float, *, confirmed: bool
    ) -> None:
        """Bring one job's place in line with its entry in the store (None: the job has ended).

        A lease that is known stays as it was; any other lease ends at monotonic `whole_term`.
        """
        known = self.registry.running.get(job_id)
        running = live is not None and live.status == "running"
        for queue in self.queues.values():
            queue.remove(job_id)
        if known and not (live and running and (live.epoch, live.worker_id) == _whose(known)):
            known.unread = not known.confirmed  # it was never sent: its worker said nothing
            self.off(job_id)
            known = None
        if live is None:
            return
        if running and known is not None:
            _taken_up(known, confirmed=confirmed)
        elif running:
            self.resume(job_id, live, now, whole_term, confirmed=confirmed)
        elif live.status == "pending":
            self.put(job_id, live)

    def put(self, job_id: str, live: Live) -> None:
        """Let a job that was found in the store wait for a slot."""
        entry = Ready(live.at, job_id, live.tenant_id, live.type, live.priority)
        self._queue(live.pool).push(entry)

    def resume(
        self, job_id: str, live: Live, now: float, whole_term: float, *, confirmed: bool
    ) -> None:
        """Let a lease that was found in the store live on, until monotonic `whole_term`."""
        lease = self._ended.pop(job_id, None)
        if lease is None or _whose(lease) != (live.epoch, live.worker_id):
            lease = ActiveLease(
                job_id,
                live.epoch,
                live.worker_id or "",
                live.tenant_id,
                live.type,
                live.pool,
                whole_term,
            )
        _taken_up(lease, confirmed=confirmed)
        self.registry.resume(lease, now)
        self._started(lease)

    def takeable(
        self, now: int, monotonic: float, closed: Collection[str]
    ) -> Iterator[tuple[Ready, Worker]]:
        """Yield ready jobs, each with its worker; grant or drop one before asking for the next.

        Pools take turns, so that no pool uses up what the caps and the size of a step allow.
        `closed` are pools to which no lease can be sent for now.
        """
        self.registry.pass_time(monotonic)
        for pool, queue in self.queues.items():
            self._handle(pool, queue, now)
        turns = deque(pool for pool in self.queues if pool not in closed)
        self._served.clear()
        while turns:
            pool = turns.popleft()
            types = filter(self._caps.type_free, self.registry.able(pool))
            entry = self.queues[pool].take(now, types)
            worker = self.registry.freest(pool, entry.type) if entry else None
            if entry and worker:
                turns.append(pool)
                self._served.append(pool)
                yield entry, worker

    def starving(self, pool: str) -> set[str]:
        """Types of jobs that could start at once if a worker had credits for them."""
        able = self.registry.able(pool)
        types = self._queue(pool).startable()
        return {type_ for type_ in types if type_ not in able and self._caps.type_free(type_)}

    def waiting(self) -> Counter[tuple[str, str]]:
        """How many jobs wait in each pool for a worker of each type."""
        return Counter(
            {
                (pool, type_): jobs
                for pool, queue in self.queues.items()
                for type_, jobs in queue.by_type().items()
            }
        )

    def blocked(self) -> Counter[tuple[str, str, str]]:
        """How many jobs wait in each pool, of each type and blocked tenant."""
        return Counter(
            {
                (pool, type_, tenant_id): jobs
                for pool, queue in self.queues.items()
                for tenant_id in queue.tenants() & self._blocked
                for type_, jobs in queue.by_type_of(tenant_id).items()
            }
        )

    def ready_since(self, pool: str, type_: str, moment: int, limit: int) -> list[str]:
        """At most `limit` jobs of a pool and type that became ready by `moment` (milliseconds)."""
        return self._queue(pool).ready_since(type_, moment, limit)

    def depth(self) -> int:
        return sum(map(len, self.queues.values()))

    def jobs_of(self, pool: str) -> int:
        """How many jobs of a pool run, or would run if there were workers enough.

        Those that a cap or a closed tenant holds back are left out: more workers would not help.
        """
        running = self.registry.leases.running_in(pool)
        queue = self.queues.get(pool)
        if not queue:
            return running
        startable = min(
            queue.within_caps,
            sum(
                min(jobs, self._caps.room("job_type", type_))
                for type_, jobs in queue.by_type().items()
            ),
            self._caps.room("global"),
        )
        return running + int(startable)

    def oldest(self) -> int | None:
        """When the longest waiting job of any pool became ready, in milliseconds."""
        ages = (queue.oldest() for queue in self.queues.values())
        return min((age for age in ages if age is not None), default=None)

    def _handle(self, pool: str, queue: ReadyQueue, now: int) -> None:
        queue.advance(now)
        types = self.registry.types(pool)
        if types != self._handled.get(pool):
            self._handled[pool] = types
            queue.handle(types, now)

    def _started(self, lease: ActiveLease) -> None:
        self._caps.started(lease.tenant_id, lease.type)
        self._queue(lease.pool).started(lease.tenant_id)
        self._capped(lease.tenant_id, but=lease.pool)

    def _capped(self, tenant_id: str, but: str | None = None) -> None:
        for pool, queue in self.queues.items():
            if pool != but:
                queue.capped(tenant_id)

    def _room(self, tenant_id: str) -> float:
        """How many more of a tenant's jobs may start."""
        return 0 if tenant_id in self._blocked else self._caps.room("tenant", tenant_id)

    def _queue(self, pool: str) -> ReadyQueue:
        if pool not in self.queues:
            self.queues[pool] = ReadyQueue(self._topology.priorities, self._room)
        return self.queues[pool]


def _taken_up(lease: ActiveLease, *, confirmed: bool) -> None:
    """Bring a lease in line with the store; whether its job is cancelled is read when needed."""
    lease.confirmed = confirmed
    lease.dropped = lease.dropped and confirmed
    lease.cancel_known = lease.given_up = False


def _whose(lease: ActiveLease) -> tuple[int, str | None]:
    return lease.epoch, lease.worker_id
