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
from streams.dispatcher.held import HeldJobs
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.leasing import MAX_LEASE_BYTES, lease_of
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.roster import Roster, Running, Worker
from streams.dispatcher.strangers import Strangers
from streams.dispatcher.sweep import Sweep
from streams.dispatcher.tenants import Tenants
from streams.dispatcher.unhandled import UnhandledTypes
from streams.errors import PoisonRecord
from streams.retry_policy import effective_policy
from streams.runtime.processor import Context, Record, Stage, declared_stage
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.ids import new_id
from streams.serde.lease_mac import seal_lease
from streams.serde.records import Command, Envelope, Job
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

Input = Envelope | Command | bytes | None

_ENDED_AT_ONCE = 200
"""What ends in bulk does so in parts: a transaction of thousands would not end in time."""


def stage(topology: Topology, cluster_key: bytes) -> Stage:
    """`events`, `duplicates` and `jobs.commands` to leases, job records and dead letters."""
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
        self._tenants = Tenants(self._board)
        self._sweep = Sweep(topology)
        self._held = HeldJobs(topology, self._roster, partition)
        self._unhandled = UnhandledTypes(topology, self._held, self._roster)
        self._strangers = Strangers(topology)

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
        self._tenants.restored(ctx.store("jobs"))
        self._sweep.restored(ctx.store("jobs"))
        self._held.restored(ctx.store("jobs"), ctx.monotonic)
        self._unhandled.restored(ctx.store("jobs"))
        whole_term = ctx.monotonic + self._topology.leases.term_seconds
        for job in store.live():
            if job.status == "pending":
                self._board.ready(job)
            elif job.status == "running":
                self._board.resume(job, known.get((job.job_id, job.epoch)), whole_term)
                self._roster.running[job.job_id].confirmed = store.confirmed(job)

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
        self._commands(life).events.tidy(_ENDED_AT_ONCE)
        self._expire(life, ctx)
        self._hear_out(ctx)
        if self._unheard_since is None:
            self._held.look(life, ())
            self._unhandled.go_on(life)
            self._sweep.go_on(life)
        life.take_back(_ENDED_AT_ONCE)
        self._lease_out(life, ctx)
        life.store.flush()
        self._parked -= life.store.purge(_ENDED_AT_ONCE)
        self._observe(now)

    def _step(self, decoded: Sequence[tuple[Record, Input]], ctx: Context) -> None:
        life = self._life(ctx)
        commands = self._commands(life)
        for record, value in decoded:
            if isinstance(value, Envelope):
                commands.events.arrived(record, value)
            elif isinstance(value, bytes):
                commands.events.came_again(value, record.timestamp)
            elif value is None:
                if self._tenants.apply(record, ctx.store("jobs")):
                    self._sweep.begin()
            else:
                commands.apply(value, record.timestamp)
                self._last_command = ctx.monotonic
        life.take_back(_ENDED_AT_ONCE)
        self._lease_out(life, ctx)
        life.store.flush()

    def _lease_out(self, life: Lifecycle, ctx: Context) -> None:
        if self._unheard_since is not None:
            return
        for entry, worker in self._board.takeable(ctx.now, ctx.monotonic):
            job = life.store.get(entry.job_id)
            if job is None or job.status != "pending":
                continue
            if not (self._sweep.rerouting and life.reroute(job)):
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
        inputs = ("jobs.commands", "tenants")
        if since is not None and all(ctx.read_through(topic, since) for topic in inputs):
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
        if self._silent:
            self._asking = None
            self._silent = False
            log.warning("kafka was silent: every lease gets a fresh term")
            self._roster.fresh_terms(ctx.monotonic)
            return
        over = [lease for lease in overdue if lease.ends_at <= moment]
        for lease in over[:_ENDED_AT_ONCE]:
            self._lost(lease, life)
        if len(over) <= _ENDED_AT_ONCE:
            self._asking = None

    def _lost(self, lease: Running, life: Lifecycle) -> None:
        term = self._topology.leases.term_seconds
        why = f"LeaseExpired: worker {lease.worker_id} did not renew it for {term:g} s"
        life.lose(lease, why, "expired")

    def _observe(self, now: int) -> None:
        partition, oldest = str(self._partition), self._board.oldest()
        metrics.READY.labels(partition).set(self._board.depth())
        metrics.RUNNING.labels(partition).set(len(self._roster.running))
        metrics.OLDEST.labels(partition).set(max(0, now - oldest) / 1000 if oldest else 0)

    def _commands(self, life: Lifecycle) -> Commands:
        return Commands(life, self._roster, self._topology, self._parked, self._strangers)

    def _store(self, ctx: Context) -> JobStore:
        return JobStore(ctx, self._topology.finished_jobs_ms)

    def _life(self, ctx: Context) -> Lifecycle:
        return Lifecycle(ctx, self._store(ctx), self._board, self._topology, self._tenants)


def _decode(record: Record) -> Input:
    """An event, a command, or the fingerprint of an event that came again.

    None is a record of `tenants`: most hold what is none of the dispatcher's business.
    """
    if record.topic == "tenants":
        return None
    if record.topic == "duplicates":
        return record.key or b""
    if record.topic == "events":
        return ENVELOPE.decode(record.value)
    return COMMAND.decode(record.value)
