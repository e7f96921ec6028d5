"""Keeps the ready and running jobs of one partition, derived from the job records.

No operation costs more than O(log n) for each job.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence

from streams.dispatcher.limited import Limited
from streams.dispatcher.live_index import Live, live
from streams.dispatcher.part import Change
from streams.dispatcher.workers.credits import Tenants, Worker
from streams.dispatcher.workers.registry import WorkerRegistry
from streams.fairness.contenders import Name
from streams.fairness.ready_queue import Ready, ReadyQueue
from streams.fairness.set_aside import Back
from streams.limits.paused import Scope
from streams.serde.job_states import LEASED, PENDING
from streams.serde.records import Job
from streams.topology.limits import Limit
from streams.topology.model import Topology

_SET_ASIDE = 2_000
"""At most so many jobs of a pool are set aside in one step; a later one goes on."""


class RunQueue:
    """The ready queues of all pools, and the caps that running jobs fill."""

    def __init__(self, topology: Topology, workers: WorkerRegistry) -> None:
        self._topology = topology
        self._workers = workers
        self.queues: dict[str, ReadyQueue] = {}
        """The queues by pool; the pool that was served longest ago comes first."""
        self._handled: dict[str, set[str]] = {}
        self._blocked: set[str] = set()
        self._weights: dict[str, float] = {}
        self.limited = Limited(topology)
        self._caps = self.limited.caps
        self.paused = self._caps.paused
        self._set_aside: Counter[str] = Counter()  # in the present step, by pool

    def changed(self, change: Change) -> None:
        """Follow a change of a job: it waits for a slot, or runs, or neither."""
        before, after = _place(change.before), _place(change.after)
        if before == after:
            return
        if change.before is not None:
            self._leave(change.job_id, change.before)
        if change.after is not None:
            self._enter(change.job_id, change.after)

    def restored(self, now: int) -> Iterator[None]:
        """Put restored jobs that limits count into their queues; yields after some."""
        while self.limited.has_unled:
            self._push(self.limited.led(now))
            yield

    def served(self, pools: Iterable[str]) -> None:
        """Let pools come last, in this order, because jobs of them were leased."""
        for pool in pools:
            self.queues[pool] = self.queues.pop(pool)

    def block(self, tenant_id: str, is_closed: bool) -> None:
        """Lease none of a tenant's jobs while it is closed; its running jobs go on."""
        self._blocked.add(tenant_id) if is_closed else self._blocked.discard(tenant_id)
        self._capped(tenant_id)

    def limit_tenant(
        self, tenant_id: str, limits: tuple[Limit, ...], running: Sequence[Live]
    ) -> None:
        """Give a tenant limits of its own; `running` are all its jobs that run."""
        self.limited.limit_tenant(tenant_id, limits, running)
        self._capped(tenant_id)

    def counts_anew(self, job: Job) -> bool:
        """Have a job wait by the limits that its tenant has now; False if it does already."""
        entry = live(job) if job.tenant_id in self.limited.changed else None
        if entry is None or self.limited.is_counted_so(job.job_id, entry):
            return False
        self._leave(job.job_id, entry)
        self._enter(job.job_id, entry)
        return True

    def pause(self, scope: Scope, value: str, is_paused: bool) -> None:
        """Start nothing of a tenant, type, pool, source or tool while it is paused."""
        self.limited.pause(scope, value, is_paused)
        if scope == "tenant":
            self._capped(value)

    def weigh(self, tenant_id: str, weight: float) -> None:
        """Give a tenant its share of the starts, beside others that wait."""
        self._weights.pop(tenant_id, None)
        if weight != 1:
            self._weights[tenant_id] = weight
        for queue in self.queues.values():
            queue.weigh(tenant_id, weight)

    def takeable(self, now: int, monotonic: float) -> Iterator[tuple[Ready, Worker]]:
        """Yield ready jobs, each with its worker; lease or end one before asking for the next.

        Pools take turns, so that no pool uses up what the caps and the size of a step allow.
        """
        self._workers.pass_time(monotonic)
        self._open_limits(now, monotonic)
        self._set_aside.clear()
        for pool, queue in self.queues.items():
            self._handle(pool, queue, now)
        turns = deque(self.queues)
        while turns:
            pool = turns.popleft()
            entry = self._first(pool, now)
            worker = self._worker(pool, entry) if entry else None
            if entry and worker:
                self.queues[pool].serve(entry.job_id)
                turns.append(pool)
                yield entry, worker

    def wait_for_credits(self) -> None:
        """Let this partition wait for its turn to use credits, for jobs that could start."""
        roster = self._workers.roster
        for pool, queue in self.queues.items():
            types = self._with_room(pool) if len(queue) else set()
            crews = roster.crews(pool) if types else []
            wanted = [
                crew
                for crew in crews
                if any(queue.has(type_, crew.tenants) for type_ in types & crew.types)
            ]
            roster.wait(self._workers.partition, pool, wanted)

    def wait_for_nothing(self) -> None:
        """Leave all credits to other partitions for now."""
        self._workers.roster.leave(self._workers.partition)

    def starving(self, pool: str) -> set[str]:
        """Types of jobs that could start at once if a worker had credits for them."""
        able = self._workers.able(pool)
        return {
            type_
            for type_ in self._with_room(pool)
            if type_ not in able or not self._queue(pool).has(type_, able[type_])
        }

    def credits(self, pool: str) -> int:
        """How many leases workers take now that may run jobs of this partition's tenants."""
        crews = self._workers.roster.crews(pool)
        if all(crew.tenants is None for crew in crews):
            return sum(crew.free for crew in crews)
        own = {*self._queue(pool).tenants(), *(name[2] for name in self.limited.aside.counts)}
        return sum(c.free for c in crews if c.tenants is None or not own.isdisjoint(c.tenants))

    def has(self, pool: str, type_: str, tenants: Tenants) -> bool:
        """Whether a job of this type and of one of these tenants may start."""
        return self._queue(pool).has(type_, tenants)

    def queued(self) -> Counter[tuple[str, str]]:
        """How many jobs are in the queue of each pool, by type: no full bucket keeps them out."""
        return Counter(
            {
                (pool, type_): jobs
                for pool, queue in self.queues.items()
                for type_, jobs in queue.by_type().items()
            }
        )

    def open(self, pool: str) -> Counter[str]:
        """How many jobs are in the queue of a pool, by type, that workers handle.

        Those that are paused, and those of closed tenants, are left out.
        """
        queue, types = self._queue(pool), self._open_types(pool)
        found = Counter({t: jobs for t, jobs in queue.by_type().items() if t in types})
        for tenant_id in queue.tenants() & (self._blocked | self.paused.tenants):
            found.subtract(queue.by_type_of(tenant_id))
        return +found

    def is_open(self, name: Name) -> bool:
        """Whether workers handle jobs of this name, and nothing of it is paused or closed."""
        pool, _, type_, _ = name
        return type_ in self._open_types(pool) and not self._is_stopped(name)

    def _is_stopped(self, name: Name) -> bool:
        """Whether anything of a name is paused, or its tenant closed."""
        pool, tenant_id, type_, _ = name
        is_closed = tenant_id in self._blocked or tenant_id in self.paused.tenants
        return is_closed or type_ in self.paused.types or pool in self.paused.pools

    def _open_types(self, pool: str) -> Collection[str]:
        if pool in self.paused.pools:
            return ()
        return self._handled.get(pool, set()) - self.paused.types

    def waiting(self) -> Counter[tuple[str, str]]:
        """How many jobs wait in each pool for a worker of each type."""
        return self.queued() + self.limited.aside.by_type

    def blocked(self) -> Counter[tuple[str, str, str]]:
        """How many jobs wait in each pool, of each type and blocked tenant."""
        if not self._blocked:
            return Counter()
        found = Counter(
            {
                (pool, type_, tenant_id): jobs
                for pool, queue in self.queues.items()
                for tenant_id in queue.tenants() & self._blocked
                for type_, jobs in queue.by_type_of(tenant_id).items()
            }
        )
        for name, jobs in self.limited.aside.counts.items():
            if name[2] in self._blocked:
                found[name] += jobs
        return found

    def ready_since(self, pool: str, type_: str, moment: int, limit: int) -> list[str]:
        """At most `limit` jobs of a pool and type that became ready by `moment` (milliseconds)."""
        found = self._queue(pool).ready_since(type_, moment, limit)
        more = self.limited.aside.ready_since(pool, type_, moment, limit - len(found))
        return found + more

    def depth(self) -> int:
        return sum(map(len, self.queues.values())) + len(self.limited.aside)

    def jobs_of(self, pool: str) -> int:
        """How many jobs of a pool run, or would run if there were workers enough.

        Those that a cap or a closed tenant holds back are left out: more workers would not help.
        """
        running = self._workers.leases.running_in(pool)
        queue = self.queues.get(pool)
        if not queue:
            return running
        startable = min(
            queue.within_caps,
            sum(
                min(jobs, self._caps.type_free(pool, type_))
                for type_, jobs in queue.by_type().items()
            ),
            self._caps.pool_free(pool),
        )
        return running + int(startable)

    def oldest(self) -> int | None:
        """When the longest waiting job of any pool became ready, in milliseconds."""
        ages = [queue.oldest() for queue in self.queues.values()] + [self.limited.aside.oldest()]
        return min((age for age in ages if age is not None), default=None)

    def _open_limits(self, now: int, monotonic: float) -> None:
        """Let jobs go on for which there is room again, or a token."""
        for bucket in self.limited.pass_time(monotonic):
            self._capped(bucket.tenant_id)
        self._push(self.limited.back(now, self._is_stopped))

    def _push(self, found: Iterable[Back]) -> None:
        for pool, ready in found:
            self._queue(pool).push(ready)
            self.limited.wants_permits(pool, ready.type)

    def _first(self, pool: str, now: int) -> Ready | None:
        """The next job of a pool that may start; those that may not are set aside."""
        able = self._workers.able(pool)
        while self._set_aside[pool] < _SET_ASIDE:
            types = (type_ for type_ in able if self._caps.type_room(pool, type_) > 0)
            found = self.queues[pool].first(now, types, able)
            if found is None or not self.limited.held_back(found):
                return found
            self.queues[pool].remove(found.job_id)
            self._set_aside[pool] += 1
        return None

    def _worker(self, pool: str, entry: Ready) -> Worker | None:
        return self._workers.freest(pool, entry.type, entry.tenant_id)

    def _with_room(self, pool: str) -> set[str]:
        """Types of which a job may start as far as caps go."""
        types = self._queue(pool).startable()
        return {type_ for type_ in types if self._caps.type_room(pool, type_) > 0}

    def _handle(self, pool: str, queue: ReadyQueue, now: int) -> None:
        queue.advance(now)
        types = self._workers.types(pool)
        if types != self._handled.get(pool):
            self._handled[pool] = types
            queue.handle(types, now)
            for type_ in queue.by_type():
                self.limited.wants_permits(pool, type_)

    def _enter(self, job_id: str, live: Live) -> None:
        if live.status == PENDING:
            queue = self._queue(live.pool)
            if not self.limited.waits(job_id, live):
                queue.push(Ready(live.at, job_id, live.tenant_id, live.type, live.priority))
                self.limited.wants_permits(live.pool, live.type)
        elif live.status in LEASED:
            self.limited.started(live)
            self._queue(live.pool).started(live.tenant_id)
            self._capped(live.tenant_id, but=live.pool)

    def _leave(self, job_id: str, live: Live) -> None:
        if live.status == PENDING:
            self._queue(live.pool).remove(job_id)
            self.limited.waits_no_more(job_id)
        elif live.status in LEASED:
            self.limited.ended(live)
            self._queue(live.pool).ended(live.tenant_id)
            self._capped(live.tenant_id, but=live.pool)

    def _capped(self, tenant_id: str, but: str | None = None) -> None:
        for pool, queue in self.queues.items():
            if pool != but:
                queue.capped(tenant_id)

    def _room(self, tenant_id: str) -> float:
        """How many more of a tenant's jobs may start."""
        if tenant_id in self._blocked:
            return 0
        room = self._caps.tenant_room(tenant_id)
        if room < 1:
            for bucket in self._caps.buckets.of_tenant(tenant_id):
                self.limited.tokens.expect(bucket)
        return room

    def _queue(self, pool: str) -> ReadyQueue:
        if pool not in self.queues:
            queue = self.queues[pool] = ReadyQueue(self._topology.priorities, self._room)
            for tenant_id, weight in self._weights.items():
                queue.weigh(tenant_id, weight)
        return self.queues[pool]


def _place(live: Live | None) -> tuple[object, ...] | None:
    """What decides where a job is kept here."""
    if live is None:
        return None
    return live.status, live.at, live.tenant_id, live.type, live.pool, live.priority, live.keys
