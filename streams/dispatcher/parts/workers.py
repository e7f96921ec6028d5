"""Workers: they announce themselves, list their leases, leave, and decline leases."""

from __future__ import annotations

from streams.dispatcher import metrics
from streams.dispatcher.failures import lose
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import confirm, end, requeue
from streams.dispatcher.workers import credits
from streams.dispatcher.workers.undeclared import Undeclared
from streams.runtime.part import handles
from streams.serde.job_states import CANCELLED, LEASED
from streams.serde.records import Command, Declined, Heartbeat, HeldLease, Job, Reply, ReplyKind


class Workers(Part):
    """Applies what workers say of themselves, and takes back the leases of those that are gone."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._workers = shared.workers
        self._undeclared = Undeclared(shared.topology)

    @handles(Heartbeat)
    def heartbeat(self, step: Step, command: Command, body: Heartbeat, at: int) -> None:
        credits.check(body)
        if body.leaving:
            why = f"WorkerLeft: {body.worker_id} ended before it was done"
            self._workers.leases.give_up(self._workers.left(body.worker_id), why, "left")
            return
        self._confirm(step, body)
        if self._undeclared.turned_away(body, step):
            # Its runs may be older than the topology, so they go on to their ends.
            self._workers.renew(body, step.monotonic)
            if self._undeclared.has_replies(body):
                self._answer_listed(step, body)
            return
        gone = self._workers.heard(body, command.command_id, step.monotonic)
        why = f"WorkerRestarted: {body.worker_id} took the place of the worker that had it"
        self._workers.leases.give_up(gone, why, "restarted")
        self._answer_listed(step, body)

    @handles(Declined)
    def declined(self, step: Step, command: Command, body: Declined, at: int) -> None:
        """Lease the job to another worker at once; the attempt does not count."""
        credits.check(body)
        if body.reason != "not_mine":
            # A lease that answered an old heartbeat would be followed by others like it.
            free = 0 if body.reason == "bad_lease" else body.free
            self._workers.roster.announced(body.worker_id, free, body.received)
        job = step.table.get(command.job_id)
        if job is None or job.status not in LEASED or job.epoch != command.epoch:
            metrics.STALE.labels("Declined").inc()
        elif body.reason == "not_mine":
            self._disowned(step, job, body)
        elif body.worker_id != job.worker_id:
            metrics.STALE.labels("Declined").inc()
        else:
            self._refused(step, job, body)

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

    def _confirm(self, step: Step, body: Heartbeat) -> None:
        """Confirm the leases that a heartbeat lists, except those that wait to run alone."""
        waits = {(held.job_id, held.epoch): held.waits for held in body.leases}
        for lease in self._workers.leases.of(body.worker_id):
            lease.dropped = lease.confirmed  # unless it is listed
        for lease in self._workers.listed(body):
            lease.dropped = False
            if not waits[lease.job_id, lease.epoch] and not lease.confirmed:
                job = step.table.get(lease.job_id)
                if job is not None:
                    confirm(step, job)

    def _disowned(self, step: Step, job: Job, body: Declined) -> None:
        """Handle that a worker read another worker's lease.

        The lease's own worker no longer reads that partition, so it gets no more leases until it is
        heard again: the present reader would decline them all. It may still run this one, unless
        the reader is its successor.
        """
        lease = self._workers.running.get(job.job_id)
        if lease is not None:
            self._workers.roster.withdraw(lease.worker_id)
        if lease is None or not self._workers.succeeds(body.worker_id, lease.worker_id):
            metrics.STALE.labels("Declined").inc()
            return
        why = f"WorkerRestarted: {body.worker_id} took the place of {lease.worker_id}"
        lose(step, lease, why, "restarted")

    def _refused(self, step: Step, job: Job, body: Declined) -> None:
        """Handle that a worker does not run its own lease."""
        if body.reason == "unknown_type":
            self._workers.roster.forget_type(body.worker_id, job.type)
        metrics.LEASES_LOST.labels(body.reason).inc()
        step.decline(job)
        if job.cancel_requested:
            end(step, job, CANCELLED, error="Cancelled before it began")
        else:
            requeue(step, job, uncount=True)

    def _answer_listed(self, step: Step, body: Heartbeat) -> None:
        """Tell a worker which of its listed leases to cancel, and which are over."""
        for held in body.leases:
            lease = self._workers.running.get(held.job_id)
            theirs = lease is not None and lease.worker_id == body.worker_id
            if lease is None or not theirs or lease.epoch != held.epoch:
                _tell(step, body, held, "lost", "the lease of this run is over")
            elif lease.cancel is not None:
                job = step.table.get(held.job_id)
                run_id = (job and job.run_id) or ""
                _tell(step, body, held, "cancel", lease.cancel, run_id)


def _tell(
    step: Step, body: Heartbeat, held: HeldLease, kind: ReplyKind, why: str, run_id: str = ""
) -> None:
    reply = Reply(body.worker_id, held.job_id, held.epoch, "", kind, message=why, run_id=run_id)
    step.answer(reply, body.work_partition)
