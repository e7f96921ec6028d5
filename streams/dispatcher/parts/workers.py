"""Workers: they list their leases in heartbeats, and decline leases."""

from __future__ import annotations

from streams.dispatcher import metrics
from streams.dispatcher.failures import lose
from streams.dispatcher.living_lease import has_begun, is_own
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import confirm, end, requeue
from streams.runtime.part import handles
from streams.serde.job_states import CANCELLED, LEASED
from streams.serde.records import Command, Declined, Heartbeat, HeldLease, Job, Reply, ReplyKind


class Workers(Part):
    """Applies what workers say of their leases, and takes back those of processes that are gone."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._workers = shared.workers

    @handles(Heartbeat)
    def heartbeat(self, step: Step, command: Command, body: Heartbeat, at: int) -> None:
        """Renew the leases that it lists, and end those of the process that it replaces."""
        worker_id = step.sender or ""
        self._confirm(step, worker_id, body)
        for lease in self._workers.missed(worker_id, body):
            job = step.table.get(lease.job_id)
            same = job is not None and job.epoch == lease.epoch
            if job is not None and same and not has_begun(step, lease, job):
                self._lease_anew(step, job, "missed")
        gone = self._workers.heard(worker_id, body, step.monotonic)
        why = f"WorkerRestarted: {worker_id} took the place of the worker that had it"
        self._workers.leases.give_up(gone, why, "restarted")
        self._answer_listed(step, worker_id, body)

    @handles(Declined)
    def declined(self, step: Step, command: Command, body: Declined, at: int) -> None:
        """Lease the job to another worker at once."""
        self._workers.roster.full(step.sender or "")
        job = step.table.get(command.job_id)
        same = job is not None and job.status in LEASED and job.epoch == command.epoch
        if job is None or not same or not is_own(step, job.worker_id):
            metrics.STALE.labels("Declined").inc()
            return
        self._lease_anew(step, job, "declined")

    def _lease_anew(self, step: Step, job: Job, reason: str) -> None:
        """Take a lease back that its worker does not have; the attempt does not count."""
        metrics.LEASES_LOST.labels(reason).inc()
        step.decline(job)
        if job.cancel_requested:
            end(step, job, CANCELLED, error="Cancelled before it began")
        else:
            requeue(step, job, uncount=True)

    def handled(self, step: Step) -> None:
        self._take_back(step)

    def tick(self, step: Step) -> None:
        self._take_back(step)

    def _take_back(self, step: Step) -> None:
        """Take back some of the leases of processes that are gone."""
        some = self._workers.leases.take_back(AT_ONCE)
        if some:
            step.on_undo(self._workers.leases.put_back, some)
        for each in some:
            lose(step, each.lease, each.why, each.reason)

    def _confirm(self, step: Step, worker_id: str, body: Heartbeat) -> None:
        """Confirm the leases that a heartbeat lists, except those that wait to run alone."""
        waits = {(held.job_id, held.epoch): held.waits for held in body.leases}
        for lease in self._workers.leases.of(worker_id):
            lease.dropped = lease.began  # unless it is listed
        for lease in self._workers.listed(worker_id, body):
            lease.dropped = False
            if not waits[lease.job_id, lease.epoch] and not lease.confirmed:
                job = step.table.get(lease.job_id)
                if job is not None:
                    confirm(step, job)

    def _answer_listed(self, step: Step, worker_id: str, body: Heartbeat) -> None:
        """Tell a worker which of its listed leases to cancel, and which are over."""
        for held in body.leases:
            lease = self._workers.running.get(held.job_id)
            theirs = lease is not None and lease.worker_id == worker_id
            if lease is None or not theirs or lease.epoch != held.epoch:
                _tell(step, worker_id, held, "lost", "the lease of this run is over")
            elif lease.cancel is not None:
                job = step.table.get(held.job_id)
                run_id = (job and job.run_id) or ""
                _tell(step, worker_id, held, "cancel", lease.cancel, run_id)


def _tell(
    step: Step, worker_id: str, held: HeldLease, kind: ReplyKind, why: str, run_id: str = ""
) -> None:
    step.tell(worker_id, Reply(held.job_id, held.epoch, "", kind, message=why, run_id=run_id))
