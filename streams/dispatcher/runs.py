"""What workers say: heartbeats, and how the runs of their leases go.

What speaks for a lease that is over changes nothing and is counted.
"""

from __future__ import annotations

from streams import ledger
from streams.dispatcher import metrics
from streams.dispatcher.answers import TOPIC, answer, check_partition
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.roster import Roster
from streams.serde import keys
from streams.serde.records import (
    Checkpoint,
    Claim,
    Command,
    Declined,
    Ended,
    Heartbeat,
    Job,
    Outcome,
    Reply,
    ReplyKind,
)
from streams.topology.model import Topology


class Runs:
    """Applies what workers say in one step."""

    def __init__(self, life: Lifecycle, roster: Roster, topology: Topology) -> None:
        self._life = life
        self._store = life.store
        self._roster = roster
        self._topology = topology

    def heartbeat(self, command: Command, body: Heartbeat) -> None:
        check_partition(self._topology, f"jobs.work.{body.pool}", body.work_partition)
        monotonic = self._life.ctx.monotonic
        for lease in self._roster.heard(body, command.command_id, monotonic):
            why = f"WorkerRestarted: {lease.worker_id} is gone, {body.worker_id} took its place"
            self._life.lose(lease, why, "restarted")

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
            reply = ledger.claim(store, job, command, body, now)
        answer(self._life.ctx, reply, body.reply_partition)

    def outcome(self, command: Command, body: Outcome) -> None:
        job = self._store.get(command.job_id)
        store = self._life.ctx.store("ledger")
        if job is None or not ledger.outcome(store, job, body, self._life.now):
            metrics.STALE.labels("Outcome").inc()

    def checkpoint(self, command: Command, body: Checkpoint) -> None:
        job = self._living(command, body.run_id)
        if job is not None:
            key = keys.checkpoint_key(job.job_id, job.incarnation, body.name)
            self._life.ctx.store("checkpoints").put(key, body.value.encode())

    def ended(self, command: Command, body: Ended) -> None:
        self._roster.announced(body.worker_id, body.free, body.received)
        job = self._living(command, body.run_id)
        if job is None:
            return
        match body.status:
            case "succeeded":
                self._life.end(job, "succeeded", result=body.result)
            case "review":
                self._life.end(job, "needs_review", error=body.error)
            case "failed":
                self._life.bury(job, "failed", body.error)
            case "cancelled":
                self._life.end(job, "cancelled", error=body.error)
            case _ if job.cancel_requested:
                self._life.end(job, "cancelled", error=body.error)
            case "released":
                self._life.requeue(job, body.error, uncount=True)
            case "retry":
                self._life.failed_attempt(job, body.error, body.retry_after_seconds)

    def declined(self, command: Command, body: Declined) -> None:
        """The job goes elsewhere at once; the attempt was none."""
        if body.reason != "not_mine":
            # A lease that answers an old heartbeat says that the next would, too.
            free = 0 if body.reason == "bad_lease" else body.free
            self._roster.announced(body.worker_id, free, body.received)
        job = self._store.get(command.job_id)
        stale = job is None or job.status != "running" or job.epoch != command.epoch
        if job is None or stale or not self._roster.disowned(job.job_id, body.worker_id):
            metrics.STALE.labels("Declined").inc()
            return
        if body.reason == "unknown_type":
            self._roster.forget_type(body.worker_id, job.type)
        metrics.LEASES_LOST.labels(body.reason).inc()
        if job.cancel_requested:
            self._life.end(job, "cancelled", error="Cancelled before it began")
        else:
            self._life.requeue(job, uncount=True)

    def _living(self, command: Command, run_id: str) -> Job | None:
        """The job, if the command speaks for its living lease."""
        job = self._store.get(command.job_id)
        if (
            job is None
            or job.status != "running"
            or (job.epoch, job.run_id) != (command.epoch, run_id)
        ):
            metrics.STALE.labels(type(command.body).__name__).inc()
            return None
        self._roster.confirm(job.job_id)
        return job


def _plain(body: Claim, command: Command, kind: ReplyKind, message: str) -> Reply:
    return Reply(
        body.worker_id, command.job_id, command.epoch, body.claim_id,
        kind,
        message=message,
    )  # fmt: skip
