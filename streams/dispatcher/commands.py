"""What each command does; a stale one, of a lease that is over, does nothing but be counted."""

from __future__ import annotations

from dataclasses import replace

from streams import ledger
from streams.dispatcher import jobs, metrics
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.roster import Roster
from streams.errors import PoisonRecord
from streams.serde import keys
from streams.serde.codec import REPLY
from streams.serde.records import (
    Cancel,
    Checkpoint,
    Claim,
    Command,
    Declined,
    Ended,
    Heartbeat,
    Job,
    Outcome,
    Replay,
    Reply,
    ReplyKind,
    Submit,
    Wake,
)
from streams.topology.model import Topology

_REPLAYABLE = ("failed", "dead", "needs_review")


class Commands:
    """Applies the commands of one step. `parked` are the jobs for which one waits."""

    def __init__(
        self, life: Lifecycle, roster: Roster, topology: Topology, parked: set[str]
    ) -> None:
        self._life = life
        self._store = life.store
        self._roster = roster
        self._topology = topology
        self._parked = parked

    def apply(self, command: Command) -> None:
        """Do what a command asks.

        Raises:
            PoisonRecord: it can never be done; nothing was changed.
        """
        match command.body:
            case Heartbeat() as body:
                self._heartbeat(command, body)
            case Submit() as body:
                self._submit(command, body)
            case Replay() as body:
                self._replay(command, body)
            case Cancel() as body:
                self._cancel(command, body)
            case Wake() as body:
                self._wake(command, body)
            case Claim() as body:
                self._claim(command, body)
            case Outcome() as body:
                self._outcome(command, body)
            case Checkpoint() as body:
                self._checkpoint(command, body)
            case Ended() as body:
                self._ended(command, body)
            case Declined() as body:
                self._declined(command, body)

    def admit(self, job: Job) -> None:
        """A new job enters; commands that overtook it are applied at once."""
        self._life.enter(job)
        if job.job_id in self._parked:
            self._parked.discard(job.job_id)
            for command in self._store.unpark(job.job_id):
                if command.tenant_id == job.tenant_id:
                    self.apply(command)

    def _heartbeat(self, command: Command, body: Heartbeat) -> None:
        self._check_partition(f"jobs.work.{body.pool}", body.work_partition)
        monotonic = self._life.ctx.monotonic
        for lease in self._roster.heard(body, command.command_id, monotonic):
            why = f"WorkerRestarted: {lease.worker_id} is gone, {body.worker_id} took its place"
            self._life.lose(lease, why, "restarted")

    def _submit(self, command: Command, body: Submit) -> None:
        place = self._life.place(command.job_id, self._life.now)
        if place is None:
            metrics.TWINS.inc()
            return
        now = self._life.now
        self.admit(jobs.from_submission(command, body, self._topology, place=place, now=now))

    def _replay(self, command: Command, body: Replay) -> None:
        if self._store.get(command.job_id) is not None:
            metrics.TWINS.inc()
            return
        old = self._store.get(body.replay_of)
        if old is None or old.tenant_id != command.tenant_id:
            raise PoisonRecord("replay_of_unknown", f"no job {body.replay_of} to replay")
        if old.status not in _REPLAYABLE:
            raise PoisonRecord("not_replayable", f"job {old.job_id} is {old.status}")
        if old.status == "needs_review":
            self._life.end(old, "cancelled", error=f"replayed as {command.job_id}: {body.note}")
        job = jobs.from_replay(command, body, old, self._life.now)
        if not body.fresh_scope:
            self._store.inherit_steps(job, old)
        self.admit(job)

    def _cancel(self, command: Command, body: Cancel) -> None:
        job = self._store.get(command.job_id)
        if job is not None and job.tenant_id != command.tenant_id:
            raise PoisonRecord("cancel_of_unknown", f"no job {command.job_id} of this tenant")
        if job is None:
            self._store.park(command)
            self._parked.add(command.job_id)
        elif job.status == "running":
            self._store.put(replace(job, cancel_requested=True, updated_at=self._life.now))
            self._tell_worker(job, body.reason)
        elif jobs.is_live(job):
            self._life.end(job, "cancelled", error=f"Cancelled: {body.reason}")

    def _wake(self, command: Command, body: Wake) -> None:
        job = self._store.get(command.job_id)
        timer = (command.epoch, body.attempts)
        if job is None or job.status != "scheduled" or timer != (job.incarnation, job.attempts):
            metrics.STALE.labels("Wake").inc()
            return
        self._life.requeue(job)

    def _claim(self, command: Command, body: Claim) -> None:
        self._check_partition("jobs.replies", body.reply_partition)
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
        self._reply(reply, body.reply_partition)

    def _outcome(self, command: Command, body: Outcome) -> None:
        job = self._store.get(command.job_id)
        store = self._life.ctx.store("ledger")
        if job is None or not ledger.outcome(store, job, body, self._life.now):
            metrics.STALE.labels("Outcome").inc()

    def _checkpoint(self, command: Command, body: Checkpoint) -> None:
        job = self._living(command, body.run_id)
        if job is not None:
            key = keys.checkpoint_key(job.job_id, job.incarnation, body.name)
            self._life.ctx.store("checkpoints").put(key, body.value.encode())

    def _ended(self, command: Command, body: Ended) -> None:
        self._roster.announced(body.worker_id, body.free)
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

    def _declined(self, command: Command, body: Declined) -> None:
        """The job goes elsewhere at once; the attempt was none."""
        if body.reason != "not_mine":
            # A lease that answers an old heartbeat says that the next would, too.
            self._roster.announced(body.worker_id, 0 if body.reason == "bad_lease" else body.free)
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

    def _check_partition(self, name: str, partition: int) -> None:
        """What cannot be sent later must not cost the records that it would be sent with."""
        topic = self._topology.topics.get(name)
        if topic is None or not 0 <= partition < topic.partitions:
            raise PoisonRecord("no_such_partition", f"{name}-{partition} is not declared")

    def _tell_worker(self, job: Job, reason: str) -> None:
        worker = self._roster.worker(job.worker_id)
        if worker is not None:
            reply = Reply(worker.worker_id, job.job_id, job.epoch, "", "cancel", message=reason)
            self._reply(reply, worker.work_partition)

    def _reply(self, reply: Reply, partition: int) -> None:
        key = reply.worker_id.encode()
        self._life.ctx.forward("jobs.replies", key, REPLY.encode(reply), partition=partition)


def _plain(body: Claim, command: Command, kind: ReplyKind, message: str) -> Reply:
    return Reply(
        body.worker_id, command.job_id, command.epoch, body.claim_id,
        kind,
        message=message,
    )  # fmt: skip
