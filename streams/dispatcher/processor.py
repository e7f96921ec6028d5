"""The dispatcher's processor: turns events and commands into jobs, leases and dead letters.

All changes of a step commit in one transaction, so a claim is checked against the living lease and
never against a copy of it. Derived state (ready queues, living leases, caps) is built in `restored`
and corrected in `undone`; what workers announced does not come from the stores and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

from streams.dispatcher import live_index, metrics, names, replies, rerouting, worker_credits
from streams.dispatcher.closed_tenants import Tenants
from streams.dispatcher.commands import Commands
from streams.dispatcher.expiry import Expiry
from streams.dispatcher.held import HeldJobs
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.lease_granting import Leasing
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.sweep import Sweep
from streams.dispatcher.takeover import take_over
from streams.dispatcher.undeclared_workers import Strangers
from streams.dispatcher.unhandled import UnhandledTypes
from streams.dispatcher.worker_queries import Asking
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.runtime.processor import Context, Record, Stage, declared_stage
from streams.serde.codec import COMMAND, ENVELOPE, JOB
from streams.serde.decoded_cache import DecodedCache
from streams.serde.records import Command, Envelope
from streams.topology.model import Topology

Input = Envelope | Command | bytes | None

_ENDED_AT_ONCE = 200
"""Jobs are ended in parts of this size: a transaction of thousands would not end in time."""
_LEASED_AT_ONCE = 500
"""Leases are sent in parts, too; the rest follows with the next records or punctuation."""
_POOLS_EVERY_MS = 500


def stage(topology: Topology, cluster_key: bytes) -> Stage:
    """The stage that reads `events`, `duplicates`, `jobs.commands` and `tenants`."""
    processor = partial(Dispatcher, topology, cluster_key)
    return declared_stage(topology, "dispatcher", processor, 0.1)


class Dispatcher:
    """Owns one partition's jobs."""

    def __init__(self, topology: Topology, cluster_key: bytes, partition: int) -> None:
        self._topology = topology
        self._partition = partition
        self._registry = WorkerRegistry(topology.leases)
        self._run_queue = RunQueue(topology, self._registry)
        self._routing = rerouting.digest(topology)
        self._sweep = Sweep(self._routing)
        self._leasing = Leasing(topology, self._run_queue, self._sweep, cluster_key, partition)
        self._asking = Asking(topology, self._run_queue, partition)
        self._cache = DecodedCache(JOB)
        self._parked: set[str] = set()  # jobs for which a command waits
        self._purged = self._purged_for_good = b""
        self._pools_due = 0
        self._expiry = Expiry(topology.leases, self._registry, _ENDED_AT_ONCE)
        self._poisoned = False
        self._unheard_since = 0.0
        self._listens = False
        self._tenants = Tenants(self._run_queue)
        self._held = HeldJobs(topology, self._registry, partition)
        self._unhandled = UnhandledTypes(topology, self._held, self._registry)
        self._strangers = Strangers(topology)

    def restored(self, ctx: Context) -> Iterator[None]:
        """Build the derived state, in bounded parts.

        Heartbeats in the log may be from workers that are long gone, so nothing is leased before
        all of them are read.
        """
        self._listens, self._unheard_since = False, ctx.monotonic
        store = self._store(ctx)
        self._parked = store.parked()
        self._tenants.restored(ctx.store("jobs"))
        self._look_up_rounds(ctx)
        term = self._topology.leases.term_seconds
        yield from take_over(self._run_queue, store, ctx, term)

    def undone(self, ctx: Context) -> None:
        """Look up again the jobs that a poison record changed, or all changed since the commit."""
        changed = self._run_queue.recent if self._poisoned else self._run_queue.changed
        whole_term = ctx.monotonic + self._topology.leases.term_seconds
        store = self._store(ctx)
        for job_id, live in live_index.look_up(ctx.store("jobs"), list(changed)):
            confirmed = live is not None and store.confirmed(job_id, live.epoch)
            self._run_queue.restore(job_id, live, ctx.monotonic, whole_term, confirmed=confirmed)
            waits = store.parked_for(job_id)
            (self._parked.add if waits else self._parked.discard)(job_id)
        self._tenants.undone(ctx.store("jobs"))
        if not self._poisoned:
            self._purged = self._purged_for_good
            self._registry.leases.undone()
            self._leasing.undone()
            self._asking.undone()
            self._look_up_rounds(ctx)
        self._poisoned = False

    def committed(self) -> None:
        """Note that all changes so far are durable."""
        self._purged_for_good = self._purged
        parts = (
            self._run_queue,
            self._registry.leases,
            self._leasing,
            self._asking,
            self._tenants,
        )
        for part in parts:
            part.committed()

    def closed(self) -> None:
        """Drop the partition's gauges, because another process owns the partition now."""
        metrics.forget_partition(self._partition, self._topology.pools)
        self._leasing.closed()
        self._held.closed()

    def process(self, record: Record, ctx: Context) -> None:
        """Handle one record."""
        self.process_batch([record], ctx)

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Handle all records in one step, in which a job is written once however it changes."""
        self._step(((record, _decode(record)) for record in records), ctx)

    def punctuate(self, now: int, ctx: Context) -> None:
        """Take back lost leases, handle jobs that wait too long, and purge old ones."""
        life = self._begin(ctx)
        self._commands(life).events.tidy(_ENDED_AT_ONCE)
        self._expiry.go_on(life, ctx)
        self._hear_out(ctx)
        if self._listens:
            self._held.look(life, self._leasing.paused())
            self._unhandled.go_on(life)
            self._sweep.go_on(life)
        life.take_back(_ENDED_AT_ONCE)
        life.store.flush()
        awaited, self._purged = life.store.purge(_ENDED_AT_ONCE, self._purged)
        self._parked -= awaited
        for job_id in awaited:
            self._run_queue.touch(job_id)
        self._observe(now)

    def initiate(self, ctx: Context, limit: int | None) -> None:
        """Lease ready jobs, and ask workers who they are and for credits."""
        if not self._listens:
            return
        life = self._begin(ctx)
        asked = self._ask(ctx)
        leased = islice(self._leasing.lease_out(life, ctx), _LEASED_AT_ONCE)
        for _ in islice(chain(leased, asked), limit):
            pass
        life.store.flush()

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        """Handle a record that the broker will never take."""
        if topic == replies.TOPIC:
            self._asking.refused(ctx.monotonic)
            return
        life = self._begin(ctx)
        self._leasing.refused(topic, (key or b"").decode(), detail, missing, life)
        life.store.flush()

    def _step(self, decoded: Iterable[tuple[Record, Input]], ctx: Context) -> None:
        life = self._begin(ctx)
        self._poisoned = True
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
                self._expiry.heard(ctx.monotonic)
        life.take_back(_ENDED_AT_ONCE)
        life.store.flush()
        self._poisoned = False

    def _look_up_rounds(self, ctx: Context) -> None:
        """Have the tasks that work in parts find their places in the store again."""
        store = ctx.store("jobs")
        self._sweep.restored(store)
        self._held.restored(store, ctx.monotonic)
        self._unhandled.restored(store)

    def _hear_out(self, ctx: Context) -> None:
        """Begin to lease once the heartbeats and tenants that were in the logs are read."""
        since, inputs = self._unheard_since, ("jobs.commands", "tenants")
        if not self._listens:
            self._listens = all(ctx.caught_up_to(topic, since) for topic in inputs)

    def _ask(self, ctx: Context) -> Iterator[None]:
        for question, partition in self._asking.questions(ctx.monotonic):
            replies.answer(ctx, question, partition)
            yield

    def _observe(self, now: int) -> None:
        partition, oldest = str(self._partition), self._run_queue.oldest()
        metrics.READY.labels(partition).set(self._run_queue.depth())
        metrics.RUNNING.labels(partition).set(len(self._registry.running))
        metrics.OLDEST.labels(partition).set(max(0, now - oldest) / 1000 if oldest else 0)
        if now >= self._pools_due:  # not each time: it costs work for each type
            self._pools_due = now + _POOLS_EVERY_MS
            for pool in self._topology.pools:
                metrics.POOL.labels(partition, pool).set(self._run_queue.jobs_of(pool))

    def _store(self, ctx: Context) -> JobStore:
        return JobStore(ctx, self._topology.finished_jobs_ms, self._cache)

    def _commands(self, life: Lifecycle) -> Commands:
        return Commands(
            life, self._registry, self._topology, self._routing, self._parked, self._strangers
        )

    def _begin(self, ctx: Context) -> Lifecycle:
        self._run_queue.mark()
        return Lifecycle(ctx, self._store(ctx), self._run_queue, self._topology, self._tenants)


def _decode(record: Record) -> Input:
    """An event, a command, or the fingerprint of an event that came again.

    Returns None for a record of `tenants`: few of them concern the dispatcher.
    """
    if record.topic == "tenants":
        return None
    if record.topic == "duplicates":
        return record.key or b""
    of_events = record.topic == "events"
    value = ENVELOPE.decode(record.value) if of_events else COMMAND.decode(record.value)
    names.check(value)
    if isinstance(value, Command):
        worker_credits.check(value.body)
    return value
