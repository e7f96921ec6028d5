"""The stage: it hands records and commands to the parts, and time and changes to all of them.

All changes of a step commit in one transaction, so a claim is checked against the living lease and
never against a copy of it. State that is derived from jobs follows each change and each undoing of
one (`part.Change`); what workers announced does not come from jobs and stays.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import cast

from streams.dispatcher import live_index, metrics, names, orders, schedule_rows
from streams.dispatcher.hooks import hooks
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Change, Part, RowChange
from streams.dispatcher.parts.approvals import Approvals
from streams.dispatcher.parts.backlog import BacklogReports
from streams.dispatcher.parts.calls import Calls
from streams.dispatcher.parts.children import Children
from streams.dispatcher.parts.claims import Claims
from streams.dispatcher.parts.continuations import Continuations
from streams.dispatcher.parts.decisions import Decisions
from streams.dispatcher.parts.declared_schedules import DeclaredSchedules
from streams.dispatcher.parts.divergences import Divergences
from streams.dispatcher.parts.event_cancels import EventCancels
from streams.dispatcher.parts.events import Events
from streams.dispatcher.parts.expiry import Expiry
from streams.dispatcher.parts.flow_control import FlowControl
from streams.dispatcher.parts.gathers import Gathers
from streams.dispatcher.parts.held import HeldJobs
from streams.dispatcher.parts.leasing import Leasing
from streams.dispatcher.parts.limits import Limits
from streams.dispatcher.parts.pausing import Pausing
from streams.dispatcher.parts.permit_owners import PermitOwners
from streams.dispatcher.parts.permits import HeldPermits
from streams.dispatcher.parts.questions import Questions
from streams.dispatcher.parts.replays import Replays
from streams.dispatcher.parts.retention import Retention
from streams.dispatcher.parts.reviews import Reviews
from streams.dispatcher.parts.routes import Routes
from streams.dispatcher.parts.runs import Runs
from streams.dispatcher.parts.schedules import Schedules
from streams.dispatcher.parts.shared_effects import SharedEffects
from streams.dispatcher.parts.start_deadlines import StartDeadlines
from streams.dispatcher.parts.start_owners import StartOwners
from streams.dispatcher.parts.starts import GrantedStarts
from streams.dispatcher.parts.submissions import Submissions
from streams.dispatcher.parts.sweep import Sweep
from streams.dispatcher.parts.tenant_limits import TenantLimits
from streams.dispatcher.parts.tenants import Tenants
from streams.dispatcher.parts.timers import Timers
from streams.dispatcher.parts.unhandled import UnhandledTypes
from streams.dispatcher.parts.waits import Waits
from streams.dispatcher.parts.workers import Workers
from streams.dispatcher.parts.workflows import Workflows
from streams.dispatcher.shared import shared
from streams.dispatcher.step import Step
from streams.dispatcher.table import Table
from streams.dispatcher.workers.roster import Roster
from streams.errors import PoisonRecord
from streams.runtime.link import LINK
from streams.runtime.part import key_spaces, routes
from streams.runtime.processor import BatchProcessor, Context, Record
from streams.runtime.stage import Stage, declared_stage
from streams.serde.codec import COMMAND
from streams.serde.records.command_kinds import KIND_OF
from streams.serde.sizes import MAX_JOB_BYTES
from streams.topology.model import Topology

PARTS: tuple[type[Part], ...] = (
    Decisions,
    Events,
    Tenants,
    TenantLimits,
    Pausing,
    Submissions,
    Replays,
    DeclaredSchedules,
    Schedules,
    Routes,
    Limits,
    EventCancels,
    Waits,
    Approvals,
    Children,
    Gathers,
    FlowControl,
    StartDeadlines,
    Timers,
    Workers,
    Runs,
    Continuations,
    Claims,
    Calls,
    SharedEffects,
    Reviews,
    Divergences,
    Expiry,
    HeldJobs,
    BacklogReports,
    UnhandledTypes,
    Sweep,
    Retention,
    Leasing,
    HeldPermits,
    PermitOwners,
    GrantedStarts,
    StartOwners,
    Questions,
    Workflows,
)
"""In the order in which they are told of a change and of the time."""

routes(PARTS), key_spaces(PARTS)  # fail here if two parts claim the same

_FOLDED_AT_ONCE = 1_000
"""Jobs that are restored between two polls: about 10 ms."""
_POOLS_EVERY_MS = 500
_LARGE_BYTES = 8 * 1024
"""A job becomes too large by a record that is larger than this, or by many commands of a worker."""


def stage(topology: Topology) -> Stage:
    """The stage that reads `events`, `duplicates`, `jobs.commands`, `tenants` and `limits.*`.

    Its workers speak to it over the link of the process.
    """
    roster = Roster(topology.leases)
    processor = partial(Dispatcher, topology, roster)
    indexes = {"jobs": live_index.LIVE_AND_ENDED, "schedules": schedule_rows.BY_TIME_AND_APP}
    declared = declared_stage(topology, "dispatcher", processor, indexes=indexes)
    return replace(declared, link=roster)


class Dispatcher(BatchProcessor):
    """Owns one partition's jobs."""

    def __init__(self, topology: Topology, roster: Roster, partition: int) -> None:
        self._topology = topology
        self.shared = shared(topology, roster, partition)
        self._hooks = hooks(PARTS, self.shared)
        self._decisions = cast(Decisions, self._hooks.parts[Decisions])
        self._unheard_since = 0.0
        self._listens = False
        self._pools_due = 0

    def restored(self, ctx: Context) -> Iterator[None]:
        """Build the derived state, in bounded parts.

        Nothing is leased before it is known which tenants are closed by now.
        """
        self._listens, self._unheard_since = False, ctx.monotonic
        self.shared.workers.restored()
        self._table = Table(ctx, self._follow, partial(self._tell_written, ctx))
        for part in self._hooks.parts.values():
            part.restored(ctx)
        for part in self._hooks.parts.values():
            yield from part.restoring(ctx)
        found = live_index.entries(ctx.store("jobs"))
        while self._fold(islice(found, _FOLDED_AT_ONCE), ctx.monotonic):
            yield
        yield from self.shared.queue.restored(ctx.now)

    def undone(self, ctx: Context) -> None:
        """Do nothing: each change was noted together with the call that reverses it."""

    def committed(self) -> None:
        """Forget what only undoing would need."""
        self.shared.workers.committed()

    def closed(self) -> None:
        """Drop the partition's gauges, because another process owns the partition now."""
        metrics.forget_partition(self.shared.partition, self._topology.pools)
        for part in self._hooks.parts.values():
            part.closed()

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Handle all records in one step."""
        step = self._begin(ctx)
        for record in records:
            if record.topic == LINK:
                self.shared.commanded_at = step.monotonic
                orders.apply(step, record)
            elif record.topic == "jobs.commands":
                self._command(step, record)
            else:
                for read in self._hooks.reads[record.topic]:
                    read(step, record)
        if self._may_be_too_large(records):
            self._table.refuse_large()
        for handled in self._hooks.handled:
            handled(step)

    def answer(self, record: Record, poison: PoisonRecord, ctx: Context) -> bool:
        """Answer a refused command of a worker, or of a person, who is told."""
        if record.topic == LINK:
            orders.refuse(self._begin(ctx), record, poison)
            return True
        if record.topic != "jobs.commands":
            return False
        try:
            command = COMMAND.decode(record.value)
        except PoisonRecord:
            return False
        return self._decisions.refuse(self._begin(ctx), command, poison)

    def punctuate(self, now: int, ctx: Context) -> None:
        """Tell every part that time has passed, once everything in the logs was read."""
        step = self._begin(ctx)
        self._hear_out(ctx)
        for part in self._hooks.ticking:
            if self._listens or not part.awaits_logs:
                part.tick(step)
        self._observe(now)

    def rests(self, ctx: Context) -> bool:
        """Whether no job waits for a worker, and no part has work in hand."""
        waits = self.shared.queue.depth()
        return self._listens and not waits and all(rests() for rests in self._hooks.rests)

    def may_wait(self, records: Sequence[Record], ctx: Context) -> bool:
        """Whether workers tell only what nobody waits for, and no job waits for what it frees."""
        return not self.shared.queue.depth() and all(map(orders.may_wait, records))

    def initiate(self, ctx: Context, limit: int | None) -> None:
        """Lease ready jobs, hand out permits, and ask workers for credits."""
        step = self._begin(ctx)
        hook = self._hooks.initiate if self._listens else self._hooks.initiate_early
        outputs = chain.from_iterable(initiate(step) for initiate in hook)
        for _ in islice(outputs, limit):
            pass

    def finish(self, ctx: Context) -> None:
        """Write each job that changed, once."""
        self._table.flush()

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        """Tell the parts of a record that the broker will never take."""
        step = self._begin(ctx)
        name = (key or b"").decode(errors="replace")  # the key of a bucket is no text
        for part in self._hooks.parts.values():
            part.refused(step, topic, name, detail, missing)

    def _may_be_too_large(self, records: Sequence[Record]) -> bool:
        """Whether a job may have grown too large: by a large record, or by many of a worker."""
        sizes = [len(record.value or b"") for record in records]
        if max(sizes, default=0) > _LARGE_BYTES:
            return True
        is_much = self._table.has_large or sum(sizes) > MAX_JOB_BYTES // 2
        return is_much and any(record.topic == LINK for record in records)

    def _command(self, step: Step, record: Record) -> None:
        """Apply a command of a topic. A worker wrote one there only in an earlier release.

        What such a worker reported is true; what it asked for cannot be answered any more.
        """
        command = COMMAND.decode(record.value)
        names.check(command)
        kind = KIND_OF[type(command.body)]
        if kind.sender == "worker" and kind.of_a_moment:
            metrics.STALE.labels(kind.name).inc()
        else:
            self._decisions.apply(step, command, record.timestamp)

    def _begin(self, ctx: Context) -> Step:
        self.shared.workers.now = ctx.monotonic
        return Step(ctx, self._table, self.shared, self._hooks)

    def _follow(self, change: Change) -> None:
        self.shared.changed(change)
        for changed in self._hooks.changed:
            changed(change)

    def _tell_written(self, ctx: Context, changes: Sequence[RowChange]) -> None:
        for written in self._hooks.written:
            written(ctx, changes)

    def _fold(self, found: Iterable[tuple[str, Live]], now: float) -> bool:
        """Follow jobs that appear; whether there was any."""
        self.shared.workers.now = now
        count = 0
        with _uncollected():
            for job_id, entry in found:
                count += 1
                self._follow(Change(job_id, None, entry))
        return count > 0

    def _hear_out(self, ctx: Context) -> None:
        """Begin to lease once the tenants that were in the log are read."""
        if not self._listens:
            self._listens = ctx.caught_up_to("tenants", self._unheard_since)

    def _observe(self, now: int) -> None:
        partition, queue = str(self.shared.partition), self.shared.queue
        oldest = queue.oldest()
        metrics.READY.labels(partition).set(queue.depth())
        metrics.RUNNING.labels(partition).set(len(self.shared.workers.running))
        metrics.OLDEST.labels(partition).set(max(0, now - oldest) / 1000 if oldest else 0)
        if now >= self._pools_due:  # not each time: it costs work for each type
            self._pools_due = now + _POOLS_EVERY_MS
            for pool in self._topology.pools:
                metrics.POOL.labels(partition, pool).set(queue.jobs_of(pool))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection, which would scan thousands of new long-lived objects in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
