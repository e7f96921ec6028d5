"""One partition's jobs: events and commands in, leases, job records and dead letters out.

All of one step commits in one transaction, so a claim is checked against the living lease and
never against a copy of it. What is derived (ready queues, living leases, caps) is built in
`restored` and corrected in `undone`; what workers announced is not from the stores and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import structlog

from streams.dispatcher import answers, jobs, live_index, metrics
from streams.dispatcher.asking import Asking
from streams.dispatcher.board import Board
from streams.dispatcher.commands import Commands
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.leases import Running
from streams.dispatcher.leasing import Leasing
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.parked import ParkedIds
from streams.dispatcher.roster import Roster
from streams.runtime.processor import Context, Record, Stage, declared_stage
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.ids import event_job_id
from streams.serde.records import Command, Envelope
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

_PURGED_AT_ONCE = 200
_LOST_AT_ONCE = 200
_RESTORED_AT_ONCE = 1_000
"""Jobs between two polls while a partition is taken over: about 10 ms."""
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
        self._partition = partition
        self._roster = Roster(topology.leases)
        self._board = Board(topology, self._roster)
        self._leasing = Leasing(topology, self._board, cluster_key, partition)
        self._asking = Asking(topology, self._board, partition)
        self._parked = ParkedIds()
        self._purged = self._purged_for_good = b""
        self._expiring: tuple[float, float] | None = None
        self._silent = False
        self._poisoned = False
        self._last_command = 0.0
        self._unheard_since = 0.0
        self._listens = False
        self._unhandled: dict[str, float] = {}

    def restored(self, ctx: Context) -> Iterator[None]:
        """A lease gets a whole term: its heartbeats went to another process.

        Heartbeats that lie in the log may be of workers long gone: nothing is leased before all of
        them are read.
        """
        self._listens, self._unheard_since = False, ctx.monotonic
        self._parked.update(self._store(ctx).parked())
        found = live_index.entries(ctx.store("jobs"))
        while part := list(islice(found, _RESTORED_AT_ONCE)):
            whole_term = ctx.monotonic + self._topology.leases.term_seconds
            for job_id, live in part:
                if live.status == "pending":
                    self._board.put(job_id, live)
                elif live.status == "running":
                    self._board.resume(job_id, live, ctx.monotonic, whole_term)
            yield

    def undone(self, ctx: Context) -> None:
        """Look up again what the record changed that was poison, or all since the last commit."""
        changed = self._board.recent if self._poisoned else self._board.changed
        whole_term = ctx.monotonic + self._topology.leases.term_seconds
        for job_id, live in live_index.look_up(ctx.store("jobs"), list(changed)):
            self._board.restore(job_id, live, ctx.monotonic, whole_term)
        self._parked.undone(self._store(ctx).parked_for, recent=self._poisoned)
        if not self._poisoned:
            self._purged = self._purged_for_good
            self._leasing.undone()
            self._asking.undone()
        self._poisoned = False

    def committed(self) -> None:
        """What was done so far is durable."""
        self._purged_for_good = self._purged
        for part in (self._board, self._parked, self._leasing, self._asking):
            part.committed()

    def closed(self) -> None:
        """The partition is another process's now."""
        metrics.forget_partition(self._partition)
        self._leasing.closed()

    def process(self, record: Record, ctx: Context) -> None:
        """Handle one event or command; see `Commands` for what each does."""
        self._step([(record, _decode(record))], ctx)

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """All at once: a job that is created and ended is written once."""
        self._step(((record, _decode(record)) for record in records), ctx)

    def punctuate(self, now: int, ctx: Context) -> None:
        """Take back what workers lost, purge what is old."""
        life = self._begin(ctx)
        self._expire(life, ctx)
        self._end_unknown_types(life, ctx)
        if not self._listens:
            self._listens = ctx.read_through("jobs.commands", self._unheard_since)
        life.store.flush()
        awaited, self._purged = life.store.purge(_PURGED_AT_ONCE, self._purged)
        for job_id in awaited:
            self._parked.discard(job_id)
        self._observe(now)

    def initiate(self, ctx: Context, limit: int | None) -> None:
        """Lease what is ready, and ask workers what is to be asked."""
        if not self._listens:
            return
        life = self._begin(ctx)
        asked = self._ask(ctx)
        for _ in islice(chain(self._leasing.lease_out(life, ctx), asked), limit):
            pass
        life.store.flush()

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        """What of this the broker will never take."""
        if topic == answers.TOPIC:
            self._asking.refused(ctx.monotonic)
            return
        life = self._begin(ctx)
        self._leasing.refused(topic, (key or b"").decode(), detail, missing, life)
        life.store.flush()

    def _step(self, decoded: Iterable[tuple[Record, Envelope | Command]], ctx: Context) -> None:
        life = self._begin(ctx)
        self._poisoned = True
        commands = Commands(life, self._roster, self._topology, self._parked)
        for record, value in decoded:
            if isinstance(value, Envelope):
                self._event(record, value, life, commands)
            else:
                commands.apply(value, record.timestamp)
                self._last_command = ctx.monotonic
        life.store.flush()
        self._poisoned = False

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
        headers = dict(record.headers)
        traceparent = headers["traceparent"].decode() if "traceparent" in headers else None
        job = jobs.from_event(
            job_id, envelope, route, self._topology,
            place=place, traceparent=traceparent,
            event_time=record.timestamp, now=life.now,
        )  # fmt: skip
        commands.admit(job)

    def _ask(self, ctx: Context) -> Iterator[None]:
        for question, partition in self._asking.questions(ctx.monotonic):
            answers.answer(ctx, question, partition)
            yield

    def _expire(self, life: Lifecycle, ctx: Context) -> None:
        """Nothing ends before all that was sent until its deadline has been read."""
        overdue = self._roster.overdue(ctx.monotonic, _LOST_AT_ONCE)
        if not overdue:
            self._expiring = None
            return
        if self._expiring is None:
            self._expiring = (overdue[-1].ends_at, ctx.monotonic)
        moment, since = self._expiring
        if not ctx.read_through("jobs.commands", moment):
            # Behind is not silent: who reads is only late, and hears what was sent.
            waited = ctx.monotonic - since > self._topology.leases.heartbeat_seconds
            self._silent |= waited and self._last_command < since
            return
        self._expiring = None
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
        for pool, type_ in self._board.waiting():
            known = self._roster.types(pool)
            if not known or type_ in known:
                continue
            since = missing[type_] = self._unhandled.get(type_, ctx.monotonic)
            if ctx.monotonic - since >= _UNKNOWN_TYPE_GRACE:
                for job_id in self._board.queues[pool].some(type_, _LOST_AT_ONCE):
                    life.bury_unknown(job_id, pool, sorted(known))
        self._unhandled = missing

    def _observe(self, now: int) -> None:
        partition, oldest = str(self._partition), self._board.oldest()
        metrics.READY.labels(partition).set(self._board.depth())
        metrics.RUNNING.labels(partition).set(len(self._roster.running))
        metrics.OLDEST.labels(partition).set(max(0, now - oldest) / 1000 if oldest else 0)

    def _store(self, ctx: Context) -> JobStore:
        return JobStore(ctx, self._topology.finished_jobs_ms)

    def _begin(self, ctx: Context) -> Lifecycle:
        self._board.mark()
        self._parked.mark()
        return Lifecycle(ctx, self._store(ctx), self._board, self._topology.window_ms)


def _decode(record: Record) -> Envelope | Command:
    if record.topic == "events":
        return ENVELOPE.decode(record.value)
    return COMMAND.decode(record.value)
