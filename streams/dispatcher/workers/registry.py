"""Tracks the workers that one partition's dispatcher knows: announced credits, living leases.

All times are this process's monotonic ones, in seconds. A lease ends a term after the *reading* of
the last heartbeat that listed it (or, until one does, of the heartbeat that the lease answers). The
worker counts from the *sending* of the same heartbeats, so it always stops first.

A worker with credits or leases of this partition is heard here at each heartbeat, any other worker
once a minute. No call walks over all workers or all leases.
"""

from __future__ import annotations

from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Change
from streams.dispatcher.workers.credits import Worker
from streams.dispatcher.workers.doubts import Doubts
from streams.dispatcher.workers.incumbents import Incumbents
from streams.dispatcher.workers.leases import ActiveLease, Leases, split_worker
from streams.dispatcher.workers.liveness import Silence
from streams.dispatcher.workers.roster import Roster
from streams.serde.job_states import LEASED
from streams.serde.records import Heartbeat
from streams.topology.model import LeasePolicy


class WorkerRegistry:
    """The workers that can take jobs and the leases they hold, from heartbeats and job records."""

    def __init__(self, policy: LeasePolicy) -> None:
        self._term = policy.term_seconds
        self._silence = Silence(policy)
        self.roster = Roster()
        self._boots = Incumbents(self._silence.fresh_seconds)
        self._doubts = Doubts(policy.term_seconds)
        self.leases = Leases()
        self._over: dict[tuple[str, int], ActiveLease] = {}  # of jobs whose change may be undone
        self.now = 0.0
        """The time of the present step."""

    @property
    def running(self) -> dict[str, ActiveLease]:
        """The living leases by job; they follow `changed`."""
        return self.leases.running

    def heard(self, heartbeat: Heartbeat, heartbeat_id: str, now: float) -> list[ActiveLease]:
        """Take in a heartbeat; returns the leases of other processes of the same instance.

        This process has taken their place (see `Incumbents`), so their leases are over.
        """
        worker_id = heartbeat.worker_id
        before = self._boots.newest(worker_id)
        if not self._boots.heard(worker_id, now):
            return []
        if before != worker_id:
            self._forget(before)
        worker = self.roster.introduced(heartbeat, now)
        worker.heartbeat_id, worker.read_at = heartbeat_id, now
        if worker.work_partition != heartbeat.work_partition:
            worker.work_partition = heartbeat.work_partition
            self._trust(worker)
        worker.told(heartbeat.free, heartbeat.received)
        worker.fresh = True
        self.roster.place(worker)
        often = bool(heartbeat.free or heartbeat.leases)
        self._silence.heard(worker_id, now, often=often)
        self.renew(heartbeat, now)
        boots = self.leases.boots(split_worker(worker_id)[0])
        others = [other for other in boots if other != worker_id]
        return [lease for other in others for lease in self.leases.of(other)]

    def renew(self, heartbeat: Heartbeat, now: float) -> None:
        """Give the leases that a heartbeat lists a whole term."""
        for lease in self.listed(heartbeat):
            lease.ends_at = now + self._term
            self._trust(self.roster.get(lease.worker_id))

    def listed(self, heartbeat: Heartbeat) -> list[ActiveLease]:
        """The living leases of the heartbeat's sender that the heartbeat lists."""
        known = ((self.running.get(held.job_id), held.epoch) for held in heartbeat.leases)
        return [
            lease
            for lease, epoch in known
            if lease and lease.epoch == epoch and lease.worker_id == heartbeat.worker_id
        ]

    def left(self, worker_id: str) -> list[ActiveLease]:
        """Forget a process that ended properly; returns the leases that it still had."""
        self._forget(worker_id)
        return self.leases.of(worker_id)

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

    def forget_ended(self) -> None:
        """Nothing so far will be undone: forget the leases that are over."""
        self._over.clear()

    def doubt(self, lease: ActiveLease, now: float) -> bool:
        """Note that a lease was not confirmed for a whole term; whether its worker is the cause.

        The first such lease of a worker may have another cause, so it counts against its job; what
        comes after it does not.
        """
        worker = self.roster.get(lease.worker_id)
        if worker is None or not worker.fresh or lease.work_partition != worker.work_partition:
            return False
        return self._doubts.doubt(worker, now)

    def succeeds(self, worker_id: str, other: str) -> bool:
        """Whether the process `worker_id` took the place of the process `other`."""
        return self._boots.succeeds(worker_id, other)

    def fresh_terms(self, now: float) -> None:
        """Give every lease a whole term, because for a while no worker could be heard."""
        self.leases.fresh_terms(now + self._term)

    def pass_time(self, now: float) -> None:
        """Stop leasing to silent workers, and forget those that have been silent for longer."""
        for doubted in self._doubts.due(now):
            self.roster.place(doubted)
        for worker in map(self.roster.get, self._silence.silent(now)):
            if worker is not None:
                worker.fresh = False
                self.roster.place(worker)
        for worker_id in self._silence.gone(now):
            self._forget(worker_id)

    def types(self, pool: str) -> set[str]:
        """The job types that a pool's workers handle.

        A worker counts until it is forgotten, and for as long as one of its leases lives.
        """
        return self.roster.types(pool) | self.leases.types(pool)

    def _lease_begins(self, change: Change, live: Live) -> None:
        """Add a lease: one granted just now, one whose end is undone, or one found in the store."""
        worker = self.roster.get(live.worker_id)
        lease = self._over.pop((change.job_id, live.epoch), None)
        if lease is None and change.before is not None and worker is not None:
            self._grant(change.job_id, live, worker)
            return
        if lease is None:  # found in the store: its heartbeats went to another process
            lease = _lease(change.job_id, live, self.now + self._term)
        _follow(lease, live)
        self._boots.found(lease.worker_id, self.now)
        self.leases.add(lease)
        if worker is not None and worker.lacks(lease):  # its end gave the credit back
            worker.sent += 1
            self.roster.place(worker)
        lease.unread = lease.given_up = False

    def _grant(self, job_id: str, live: Live, worker: Worker) -> None:
        """Give one of the worker's credits to a job."""
        worker.sent += 1
        self._doubts.granted(worker)
        self.roster.place(worker)
        lease = _lease(job_id, live, worker.read_at + self._term)
        lease.number, lease.work_partition = worker.sent, worker.work_partition
        self.leases.add(lease)

    def _lease_ends(self, change: Change) -> None:
        """Remove a lease; one that its worker never read gives the credit back."""
        lease = self.leases.remove(change.job_id)
        if lease is None:
            return
        if change.undone:
            lease.unread = not lease.confirmed  # it was never sent: its worker said nothing
        else:
            self._over[change.job_id, lease.epoch] = lease
        worker = self.roster.get(lease.worker_id)
        if not lease.unread:
            self._trust(worker)
        if worker is None:
            self._forget_boot(lease.worker_id)
        elif worker.lacks(lease):
            worker.sent -= 1
            self.roster.place(worker)

    def _trust(self, worker: Worker | None) -> None:
        if worker is not None and worker.doubted:
            self._doubts.trust(worker)
            self.roster.place(worker)

    def _forget(self, worker_id: str) -> None:
        self.roster.remove(worker_id)
        self._doubts.forget(worker_id)
        self._silence.forget(worker_id)
        self._forget_boot(worker_id)

    def _forget_boot(self, worker_id: str) -> None:
        if worker_id not in self._silence and not self.leases.of(worker_id):
            self._boots.forget(worker_id)


def _lease(job_id: str, live: Live, ends_at: float) -> ActiveLease:
    worker = live.worker_id or ""
    return ActiveLease(job_id, live.epoch, worker, live.tenant_id, live.type, live.pool, ends_at)


def _follow(lease: ActiveLease, live: Live) -> None:
    lease.confirmed, lease.cancel = live.confirmed, live.cancel
    lease.dropped = lease.dropped and live.confirmed
