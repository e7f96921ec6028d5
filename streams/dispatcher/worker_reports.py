"""Applies the workers' commands: heartbeats, and reports about the runs of their leases.

A command for a lease that is over changes nothing and is counted.
"""

from __future__ import annotations

from streams import ledger
from streams.dispatcher import attempts, metrics, settling
from streams.dispatcher.active_leases import ActiveLease
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.replies import TOPIC, answer, check_partition
from streams.dispatcher.undeclared_workers import Strangers
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.serde import keys
from streams.serde.records import (
    Checkpoint,
    Claim,
    Command,
    Declined,
    Ended,
    Heartbeat,
    HeldLease,
    Job,
    LedgerEntry,
    Outcome,
    Reply,
    ReplyKind,
)
from streams.topology.model import Topology


class Runs:
    """Applies the workers' commands of one step."""

    def __init__(
        self, life: Lifecycle, registry: WorkerRegistry, topology: Topology, strangers: Strangers
    ) -> None:
        self._life = life
        self._store = life.store
        self._registry = registry
        self._topology = topology
        self._strangers = strangers

    def heartbeat(self, command: Command, body: Heartbeat) -> None:
        if body.leaving:
            self._left(body)
            return
        self._confirm(body)
        if self._strangers.turned_away(body, self._life.ctx):
            # Its runs may be older than the topology, so they go on to their ends.
            self._registry.renew(body, self._life.ctx.monotonic)
            if self._strangers.has_replies(body):
                self._answer_listed(body)
            return
        gone = self._registry.heard(body, command.command_id, self._life.ctx.monotonic)
        why = f"WorkerRestarted: {body.worker_id} took the place of the worker that had it"
        self._registry.leases.give_up(gone, why, "restarted")
        self._answer_listed(body)

    def _confirm(self, body: Heartbeat) -> None:
        """Confirm the leases that a heartbeat lists, except those that wait to run alone."""
        waits = {(held.job_id, held.epoch): held.waits for held in body.leases}
        for lease in self._registry.leases.of(body.worker_id):
            lease.dropped = lease.confirmed  # unless it is listed
        for lease in self._registry.listed(body):
            lease.dropped = False
            if not waits[lease.job_id, lease.epoch]:
                self._life.confirm(lease.job_id)

    def _left(self, body: Heartbeat) -> None:
        """Give the leases of a worker that ended properly to others at once."""
        why = f"WorkerLeft: {body.worker_id} ended before it was done"
        self._registry.leases.give_up(self._registry.left(body.worker_id), why, "left")

    def claim(self, command: Command, body: Claim) -> None:
        check_partition(self._topology, TOPIC, body.reply_partition)
        job = self._living(command, body.run_id)
        now = self._life.now
        if job is None:
            text = "the lease of this run is over"
            reply = _plain(body, command, "lost", text)
        elif job.cancel_requested:
            reply = _plain(body, command, "cancel", "the job is being cancelled")
        else:
            store = self._life.ctx.store("ledger")
            reply = ledger.claim(store, job, body, now, lives=self._lives)
        answer(self._life.ctx, reply, body.reply_partition)

    def outcome(self, command: Command, body: Outcome) -> None:
        job = self._store.get(command.job_id)
        store = self._life.ctx.store("ledger")
        if job is None or not ledger.outcome(store, job, body, self._life.now):
            metrics.STALE.labels("Outcome").inc()
        elif job.status != "running":  # a late outcome, for which a job may be in review
            settling.go_on(self._life, job)

    def checkpoint(self, command: Command, body: Checkpoint) -> None:
        job = self._living(command, body.run_id)
        if job is not None:
            key = keys.checkpoint_key(job.job_id, job.incarnation, body.name)
            self._life.ctx.store("checkpoints").put(key, body.value.encode())

    def ended(self, command: Command, body: Ended) -> None:
        self._registry.announced(body.worker_id, body.free, body.received)
        job = self._living(command, body.run_id, last_word=True)
        if job is None:
            return
        life, now = self._life, self._life.now
        match body.status:
            case "succeeded":
                life.end(job, "succeeded", result=body.result)
            case "review":
                # If the earlier call's outcome came meanwhile, no person has to decide.
                job = attempts.failed(job, body.error, now, body.traceback)
                settling.go_on(life, life.end(job, "needs_review", error=body.error))
            case "failed":
                job = attempts.failed(job, body.error, now, body.traceback)
                life.dead_letter(job, "failed", body.error)
            case _ if body.status == "cancelled" or job.cancel_requested:
                life.end(job, "cancelled", error=body.error)
            case "released":
                life.given_back(job, body.error)
            case "retry":
                life.failed_attempt(job, body.error, body.retry_after_seconds, body.traceback)

    def declined(self, command: Command, body: Declined) -> None:
        """Lease the job to another worker at once; the attempt does not count."""
        if body.reason != "not_mine":
            # A lease that answered an old heartbeat would be followed by others like it.
            free = 0 if body.reason == "bad_lease" else body.free
            self._registry.announced(body.worker_id, free, body.received)
        job = self._store.get(command.job_id)
        if job is None or job.status != "running" or job.epoch != command.epoch:
            metrics.STALE.labels("Declined").inc()
        elif body.reason == "not_mine":
            self._disowned(job, body)
        elif body.worker_id != job.worker_id:
            metrics.STALE.labels("Declined").inc()
        else:
            self._refused(job, body)

    def _disowned(self, job: Job, body: Declined) -> None:
        """Handle that a worker read another worker's lease.

        The lease's own worker no longer reads that partition, so it gets no more leases until it is
        heard again: the present reader would decline them all. It may still run this one, unless
        the reader is its successor.
        """
        lease = self._registry.running.get(job.job_id)
        if lease is not None:
            self._registry.withdraw(lease.worker_id)
        if lease is None or not self._registry.succeeds(body.worker_id, lease.worker_id):
            metrics.STALE.labels("Declined").inc()
            return
        why = f"WorkerRestarted: {body.worker_id} took the place of {lease.worker_id}"
        self._life.lose(lease, why, "restarted")

    def _refused(self, job: Job, body: Declined) -> None:
        """Handle that a worker does not run its own lease."""
        if body.reason == "unknown_type":
            self._registry.forget_type(body.worker_id, job.type)
        metrics.LEASES_LOST.labels(body.reason).inc()
        if job.cancel_requested:
            self._life.end(job, "cancelled", error="Cancelled before it began")
        else:
            self._life.requeue(job, uncount=True)

    def _answer_listed(self, body: Heartbeat) -> None:
        """Tell a worker which of its listed leases to cancel, and which are over."""
        for held in body.leases:
            lease = self._registry.running.get(held.job_id)
            theirs = lease is not None and lease.worker_id == body.worker_id
            if lease is None or not theirs or lease.epoch != held.epoch:
                self._tell(body, held, "lost", "the lease of this run is over")
            elif (reason := self._cancelled(lease)) is not None:
                self._tell(body, held, "cancel", reason)

    def _tell(self, body: Heartbeat, held: HeldLease, kind: ReplyKind, why: str) -> None:
        reply = Reply(body.worker_id, held.job_id, held.epoch, "", kind, message=why)
        answer(self._life.ctx, reply, body.work_partition)

    def _cancelled(self, lease: ActiveLease) -> str | None:
        """Why the job of a lease is being cancelled; read once for a lease from the store."""
        if not lease.cancel_known:
            job = self._store.get(lease.job_id)
            if job is not None:
                self._registry.cancelled(job)
        return lease.cancel

    def _lives(self, entry: LedgerEntry) -> bool:
        job = self._store.get(entry.job_id)
        return job is not None and (job.status, job.run_id) == ("running", entry.run_id)

    def _living(self, command: Command, run_id: str, *, last_word: bool = False) -> Job | None:
        """The job if the command speaks for its living lease; this confirms the lease."""
        job = self._store.get(command.job_id)
        if (
            job is None
            or job.status != "running"
            or (job.epoch, job.run_id) != (command.epoch, run_id)
        ):
            metrics.STALE.labels(type(command.body).__name__).inc()
            return None
        if not last_word:
            self._life.confirm(job.job_id)
        return job


def _plain(body: Claim, command: Command, kind: ReplyKind, message: str) -> Reply:
    return Reply(
        body.worker_id,
        command.job_id,
        command.epoch,
        body.claim_id,
        kind,
        message=message,
    )
