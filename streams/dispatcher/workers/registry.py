"""Tracks what workers have of one partition: their living leases, and their newest processes.

All times are this process's monotonic ones, in seconds. A lease ends a term after the *reading* of
the last heartbeat that listed it (or, until one does, of the beat that it names). The worker counts
from the *sending* of the same, so it always stops first. The end of a connection ends no lease.
"""

from __future__ import annotations

from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Change
from streams.dispatcher.workers.credits import Able, Worker
from streams.dispatcher.workers.incumbents import Incumbents
from streams.dispatcher.workers.leases import ActiveLease, Leases
from streams.dispatcher.workers.roster import Roster
from streams.serde.ids import split_worker
from streams.serde.job_states import LEASED
from streams.serde.records import Heartbeat
from streams.topology.model import LeasePolicy


class WorkerRegistry:
    """The leases of one partition, from heartbeats and job records, and the process's roster."""

    def __init__(self, policy: LeasePolicy, roster: Roster, partition: int) -> None:
        self._term = policy.term_seconds
        self.partition = partition
        self.roster = roster
        self._boots = Incumbents(policy)
        self.leases = Leases()
        self._over: dict[tuple[str, int], ActiveLease] = {}  # of jobs whose change may be undone
        self._sent: list[ActiveLease] = []  # of the present transaction
        self.now = 0.0
        """The time of the present step."""

    @property
    def running(self) -> dict[str, ActiveLease]:
        """The living leases by job; they follow `changed`."""
        return self.leases.running

    def heard(self, worker_id: str, heartbeat: Heartbeat, now: float) -> list[ActiveLease]:
        """Take in a heartbeat; returns the leases of other processes of the same instance.

        This process has taken their place (see `Incumbents`), so their leases are over.
        """
        for lease in self.listed(worker_id, heartbeat):
            lease.ends_at = now + self._term  # also for one that is not heard: it counts so, too
        newest = self._boots.newest(worker_id)
        if not self._boots.heard(worker_id, now, lives=self.roster.get(newest) is not None):
            return []
        boots = self.leases.boots(split_worker(worker_id)[0])
        others = [other for other in boots if other != worker_id]
        return [lease for other in others for lease in self.leases.of(other)]

    def listed(self, worker_id: str, heartbeat: Heartbeat) -> list[ActiveLease]:
        """The living leases of a heartbeat's sender that the heartbeat lists."""
        known = ((self.running.get(held.job_id), held.epoch) for held in heartbeat.leases)
        return [
            lease
            for lease, epoch in known
            if lease and lease.epoch == epoch and lease.worker_id == worker_id
        ]

    def missed(self, worker_id: str, heartbeat: Heartbeat) -> list[ActiveLease]:
        """The leases of a heartbeat's sender that it never got.

        They went out over an earlier connection, or from an earlier owner, and the worker, which
        speaks over another one now, has never listed them. One that is not connected now may have
        sent this heartbeat before it read them.
        """
        listed = {(held.job_id, held.epoch) for held in heartbeat.leases}
        present = self.roster.get(worker_id)
        if present is None:
            return []
        return [
            lease
            for lease in self.leases.of(worker_id)
            if not lease.began
            and (lease.job_id, lease.epoch) not in listed
            and (lease.via is None or lease.via is not present)
        ]

    def changed(self, change: Change) -> None:
        """Follow a change of a job: its lease begins, goes on or ends."""
        before, after = change.before, change.after
        held = before if before is not None and before.status in LEASED else None
        holds = after if after is not None and after.status in LEASED else None
        if held and holds and (held.epoch, held.worker_id) == (holds.epoch, holds.worker_id):
            _follow(self.running[change.job_id], holds)
            return
        if held:
            self._lease_ends(change)
        if holds:
            self._lease_begins(change, holds)

    def restored(self) -> None:
        """The partition begins anew; another owner of it in this process may have died."""
        self.roster.leave(self.partition)

    def committed(self) -> None:
        """Nothing so far will be undone: forget the leases that are over."""
        self._over.clear()
        for lease in self._sent:
            lease.sent_to = None
        self._sent.clear()

    def closed(self) -> None:
        """The partition is taken away: give back the credits of leases that were not sent."""
        for lease in self._sent:
            self._give_back(lease)
        self._sent.clear()
        self.roster.leave(self.partition)

    def fresh_terms(self, now: float) -> None:
        """Give every lease a whole term, because for a while no worker could be heard."""
        self.leases.fresh_terms(now + self._term)

    def pass_time(self, now: float) -> None:
        """Send no leases to silent workers, and forget processes of which nothing is left."""
        self.roster.pass_time(now)
        self._boots.forget_some(now, self._is_known)

    def types(self, pool: str) -> set[str]:
        """The job types that a pool's workers handle.

        Those of which leases live are among them.
        """
        return self.roster.types(pool, self.now) | self.leases.types(pool)

    def able(self, pool: str) -> Able:
        """What workers with credits can run now of this partition's jobs in a pool."""
        return self.roster.able(pool, self.partition)

    def freest(
        self, pool: str, job_type: str, tenant_id: str, but: str | None = None
    ) -> Worker | None:
        """The worker with the most credits among those of a pool that may run such a job."""
        return self.roster.freest(pool, self.partition, job_type, tenant_id, but)

    def _is_known(self, worker_id: str) -> bool:
        return bool(self.roster.get(worker_id) or self.leases.of(worker_id))

    def _lease_begins(self, change: Change, live: Live) -> None:
        """Add a lease: one granted just now, one whose end is undone, or one found in the store."""
        lease = self._over.pop((change.job_id, live.epoch), None)
        worker = self.roster.get(live.worker_id)
        if lease is None and change.before is not None and worker is not None:
            lease = self._granted(change.job_id, live, worker)
        elif lease is None:  # found in the store: its heartbeats went to another process
            lease = _lease(change.job_id, live, self.now + self._term)
            self._boots.found(lease.worker_id, self.now)
        _follow(lease, live)
        lease.given_up = False
        self.leases.add(lease)

    def _granted(self, job_id: str, live: Live, worker: Worker) -> ActiveLease:
        """A lease that takes one of a worker's credits."""
        self.roster.sent(worker, self.partition)
        lease = _lease(job_id, live, worker.read_at + self._term)
        lease.sent_to = lease.via = worker
        self._sent.append(lease)
        return lease

    def _lease_ends(self, change: Change) -> None:
        """Remove a lease; one that is not sent after all gives the credit back."""
        lease = self.leases.remove(change.job_id)
        if lease is not None and change.undone:
            self._give_back(lease)
        elif lease is not None:
            self._over[change.job_id, lease.epoch] = lease

    def _give_back(self, lease: ActiveLease) -> None:
        worker, lease.sent_to = lease.sent_to, None
        if worker is not None:
            self.roster.unsent(worker)


def _lease(job_id: str, live: Live, ends_at: float) -> ActiveLease:
    worker = live.worker_id or ""
    return ActiveLease(job_id, live.epoch, worker, live.tenant_id, live.type, live.pool, ends_at)


def _follow(lease: ActiveLease, live: Live) -> None:
    lease.confirmed, lease.cancel = live.confirmed, live.cancel
    lease.dropped = lease.dropped and lease.began
