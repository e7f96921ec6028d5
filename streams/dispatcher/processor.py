"""One partition's jobs: events and commands in, leases, job records and dead letters out.

All of one step commits in one transaction, so a claim is checked against the living lease and
never against a copy of it. What is derived (ready queues, living leases, caps) is built again in
`restored`; what workers announced is not from the stores and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import structlog

from streams.dispatcher import jobs, metrics
from streams.dispatcher.board import Board
from streams.dispatcher.commands import Commands
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.leasing import MAX_LEASE_BYTES, lease_of
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.roster import Roster, Running, Worker
from streams.errors import PoisonRecord
from streams.retry_policy import effective_policy
from streams.runtime.processor import Context, Record, Stage, declared_stage
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.headers import traceparent
from streams.serde.ids import event_job_id, new_id
from streams.serde.lease_mac import seal_lease
from streams.serde.records import Command, Envelope, Job
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

_PURGED_AT_ONCE = 200
_UNKNOWN_TYPE_GRACE = 10.0
"""Seconds that a type may be handled by no worker while some are there: a deployment rolls."""


def stage(topology: Topology, cluster_key: bytes) -> Stage:
    """`events` and `jobs.commands` to leases, job records and dead letters."""
    processor = partial(Dispatcher, topology, cluster_key)
    return declared_stage(topology, "dispatcher", processor, 0.1)


class Dispatcher:
    """One partition's jobs."""

    def __init__(self, topology: Topology, cluster_key: bytes, partition: int) -> None:
        self._topology = topology
        self._cluster_key = cluster_key
        self._partition = partition
        self._roster = Roster(topology.leases)
        self._board = Board(topology, self._roster)
        self._parked: set[str] = set()
        self._asking: tuple[float, float] | None = None
        self._silent = False
        self._last_command = 0.0
        self._unheard_since: float | None = None
        self._assigned = False
        self._unhandled: dict[str, float] = {}

    def restored(self, ctx: Context) -> None:
        """A lease not known here gets a whole term: its heartbeats went to another process."""
        known = self._roster.forget_leases()
        self._board.clear()
        self._asking = None
        if not self._assigned:
            # Heartbeats that lie in the log may be of workers long gone: read them all first.
            self._assigned, self._unheard_since = True, ctx.monotonic
        store = self._store(ctx)
        self._parked = store.parked()
        whole_term = ctx.monotonic + self._topology.leases.term_seconds
        for job in store.live():
            if job.status == "pending":
                self._board.ready(job)
            elif job.status == "running":
                self._board.resume(job, known.get((job.job_id, job.epoch)), whole_term)

    def process(self, record: Record, ctx: Context) -> None:
        """Handle one event or command; see `Commands` for what each does."""
        decoded = _decode(record)
        self._step([(record, decoded)], ctx)

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """All at once: a job that is created, leased and ended is written once."""
        decoded = [(record, _decode(record)) for record in records]
        try:
            self._step(decoded, ctx)
        except PoisonRecord:
            self.restored(ctx)  # the records before it had been taken in
            raise

    def punctuate(self, now: int, ctx: Context) -> None:
        """Take back what workers lost, purge what is old, lease what is ready."""
        life = self._life(ctx)
        self._expire(life, ctx)
        self._end_unknown_types(life, ctx)
        self._hear_out(ctx)
        self._lease_out(life, ctx)
        life.store.flush()
        self._parked -= life.store.purge(_PURGED_AT_ONCE)
        self._observe(now)

    def _step(self, decoded: Sequence[tuple[Record, Envelope | Command]], ctx: Context) -> None:
        life = self._life(ctx)
        commands = Commands(life, self._roster, self._topology, self._parked)
        for record, value in decoded:
            if isinstance(value, Envelope):
                self._event(record, value, life, commands)
            else:
                commands.apply(value, record.timestamp)
                self._last_command = ctx.monotonic
        self._lease_out(life, ctx)
        life.store.flush()

    def _event(
        self, record: Record, envelope: Envelope, life: Lifecycle, commands: Commands
    ) -> None:
        route = self._topology.route(envelope.source, envelope.event_type)
        if route is None:
            metrics.UNROUTED.inc()
            return
        job_id = event_job_id(envelope.tenant_id, envelope.source, envelope.dedup_key)
        place = life.place(job_id, record.timestamp)
        if place is None:
            metrics.TWINS.inc()
            return
        job = jobs.from_event(
            job_id, envelope, route, self._topology,
            place=place, traceparent=traceparent(record.headers),
            event_time=record.timestamp, now=life.now,
        )  # fmt: skip
        commands.admit(job)

    def _lease_out(self, life: Lifecycle, ctx: Context) -> None:
        if self._unheard_since is not None:
            return
        for entry, worker in self._board.takeable(ctx.now, ctx.monotonic):
            job = life.store.get(entry.job_id)
            if job is not None and job.status == "pending":
                self._lease(job, worker, life, ctx)

    def _lease(self, job: Job, worker: Worker, life: Lifecycle, ctx: Context) -> None:
        declared = self._topology.job_type(job.type)
        policy = effective_policy(worker.handlers[job.type], declared, job)
        job = jobs.begun(job, new_id("run"), worker.worker_id, policy, ctx.now)
        steps = life.store.steps(job)
        lease = lease_of(job, worker, steps, self._partition, self._topology.leases)
        sealed = seal_lease(lease, self._cluster_key)
        if len(sealed) > MAX_LEASE_BYTES:
            error = f"its input and steps make a lease of {len(sealed)} bytes: keep them smaller"
            life.bury(job, "dead", error, reason="lease_too_large")
            return
        topic = f"jobs.work.{job.pool}"
        ctx.forward(topic, job.job_id.encode(), sealed, partition=worker.work_partition)
        life.store.put(job)
        self._board.grant(job, worker)
        metrics.ATTEMPTS.labels(job.type).inc()

    def _hear_out(self, ctx: Context) -> None:
        since = self._unheard_since
        if since is not None and ctx.read_through("jobs.commands", since):
            self._unheard_since = None

    def _expire(self, life: Lifecycle, ctx: Context) -> None:
        """Nothing ends before all that was sent until its deadline has been read."""
        overdue = self._roster.overdue(ctx.monotonic)
        if not overdue:
            self._asking = None
            return
        if self._asking is None:
            self._asking = (max(lease.ends_at for lease in overdue), ctx.monotonic)
        moment, since = self._asking
        if not ctx.read_through("jobs.commands", moment):
            # Behind is not silent: who reads is only late, and hears what was sent.
            waited = ctx.monotonic - since > self._topology.leases.heartbeat_seconds
            self._silent |= waited and self._last_command < since
            return
        self._asking = None
        if self._silent:
            self._silent = False
            log.warning("kafka was silent: every lease gets a fresh term")
            self._roster.fresh_terms(ctx.monotonic)
            return
        for lease in overdue:
            if lease.ends_at <= moment:
                self._lost(lease, life)

    def _lost(self, lease: Running, life: Lifecycle) -> None:
        term = self._topology.leases.term_seconds
        why = f"LeaseExpired: worker {lease.worker_id} did not renew it for {term:g} s"
        life.lose(lease, why, "expired")

    def _end_unknown_types(self, life: Lifecycle, ctx: Context) -> None:
        missing: dict[str, float] = {}
        for pool, queue in self._board.queues.items():
            workers = self._roster.present(pool, ctx.monotonic)
            known = {type_ for worker in workers for type_ in worker.handlers}
            for lane in queue.lanes():
                if not workers or lane.type in known:
                    continue
                since = missing[lane.type] = self._unhandled.get(lane.type, ctx.monotonic)
                if ctx.monotonic - since >= _UNKNOWN_TYPE_GRACE:
                    for entry in list(lane.jobs):
                        life.bury_unknown(entry.job_id, pool, sorted(known))
        self._unhandled = missing

    def _observe(self, now: int) -> None:
        partition, oldest = str(self._partition), self._board.oldest()
        metrics.READY.labels(partition).set(self._board.depth())
        metrics.RUNNING.labels(partition).set(len(self._roster.running))
        metrics.OLDEST.labels(partition).set(max(0, now - oldest) / 1000 if oldest else 0)

    def _store(self, ctx: Context) -> JobStore:
        return JobStore(ctx, self._topology.finished_jobs_ms)

    def _life(self, ctx: Context) -> Lifecycle:
        return Lifecycle(ctx, self._store(ctx), self._board, self._topology.window_ms)


def _decode(record: Record) -> Envelope | Command:
    if record.topic == "events":
        return ENVELOPE.decode(record.value)
    return COMMAND.decode(record.value)
