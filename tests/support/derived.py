"""What a dispatcher derives from its stores, and the same of one that was just built from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import orjson

from streams.dispatcher import live_index
from streams.dispatcher.job import is_live
from streams.dispatcher.part import Part
from streams.dispatcher.parts.backlog import BacklogReports
from streams.dispatcher.parts.declared_schedules import DeclaredSchedules
from streams.dispatcher.parts.event_cancels import EventCancels
from streams.dispatcher.parts.events import Events
from streams.dispatcher.parts.gathers import Gathers
from streams.dispatcher.parts.held import HeldJobs
from streams.dispatcher.parts.retention import Retention
from streams.dispatcher.parts.schedules import Schedules
from streams.dispatcher.parts.start_deadlines import StartDeadlines
from streams.dispatcher.parts.submissions import Submissions
from streams.dispatcher.parts.sweep import Sweep
from streams.dispatcher.parts.unhandled import UnhandledTypes
from streams.dispatcher.parts.waits import Waits
from streams.dispatcher.routing import has_begun
from streams.dispatcher.stage import Dispatcher
from streams.dispatcher.workers.roster import Roster
from streams.runtime.partition_task import PartitionTask
from streams.runtime.task import Task
from streams.serde.keys import after, split
from streams.state.indexed import INDEX
from streams.state.store import KeyValueStore
from support.provoking import provoking

P = TypeVar("P", bound=Part)


def derived(dispatcher: Dispatcher) -> tuple[Any, ...]:
    """What a dispatcher can build from its stores alone.

    Waiting jobs and their places, leases of running ones, filled caps, closed tenants, awaited
    cancels, kept events, cancels by events, reports of held jobs and of the backlog, whether jobs
    follow the routing, and how much is left to do for jobs of jobs.
    """
    shared = dispatcher.shared
    waiting = {
        (pool, job_id, entry[0], lane.tenant.id, lane.type, lane.priority)
        for pool, queue in shared.queue.queues.items()
        for job_id, entry in queue._members.items()
        for lane in (queue._lanes[entry[2]],)
    } | _set_aside(dispatcher)
    charged = {
        (pool, tenant.id): tenant.running
        for pool, queue in shared.queue.queues.items()
        for tenant in queue._passes.tenants.values()
        if tenant.running
    }
    running = {
        (job_id, lease.epoch, lease.worker_id, lease.confirmed, lease.cancel)
        for job_id, lease in shared.workers.running.items()
    }
    closed = (set(shared.closed.disabled), set(shared.closed.erased))
    reports = part(dispatcher, HeldJobs)._seen
    cancels, backlog = part(dispatcher, EventCancels), part(dispatcher, BacklogReports)
    kept = (
        set(part(dispatcher, Submissions)._awaited),
        part(dispatcher, Events)._kept._state,
        (dict(cancels._unfinished._all), cancels._jobs.last),
        {key for key, seen in reports.items() if seen.told_at is not None},
        shared.unrouted,
        +shared.open_waits._found_by,
        shared.open_waits._jobs,
        len(part(dispatcher, Waits)._offers),
        part(dispatcher, Waits)._recent.last,
        len(shared.stops),
        len(part(dispatcher, Gathers)._filling),
        len(part(dispatcher, Gathers)._forgetting),
        {app: each for app, each in part(dispatcher, DeclaredSchedules)._declared.items() if each},
        (dict(backlog._depths._jobs), backlog._published),
    )
    caps = shared.queue._caps
    counts = dict(caps._running), dict(caps.permits.holdings)
    return waiting, charged, running, counts, closed, kept


def _set_aside(dispatcher: Dispatcher) -> set[tuple[str, str, int, str, str, str]]:
    """The waiting jobs that are not in the queues, since a bucket of their own is full."""
    aside = dispatcher.shared.queue.limited.aside
    return {
        (pool, job_id, entry[0], tenant_id, type_, priority)
        for job_id, entry in aside._members.items()
        for pool, tenant_id, type_, priority in (aside._lines[entry[2]].name,)
    }


def part(dispatcher: Dispatcher, kind: type[P]) -> P:
    """One part of a dispatcher."""
    found = dispatcher._hooks.parts[kind]
    assert isinstance(found, kind)
    return found


def processor(task: Task) -> Dispatcher:
    """The processor of a dispatcher's task."""
    found = task._processor._processor
    assert isinstance(found, Dispatcher)
    return found


def rebuilt(task: Task) -> tuple[Any, ...]:
    """The same as `derived` of a dispatcher that was just built from the task's stores."""
    shared = processor(task).shared
    fresh = Dispatcher(shared.topology, Roster(shared.topology.leases), shared.partition)
    for _ in fresh.restored(task.ctx):
        pass
    return derived(fresh)


def after_an_abort(task: Task, whole: PartitionTask) -> tuple[Any, Any]:
    """All that a step must leave as it was if it is taken back: before such a step, and after it.

    The step handles records of every kind, among them a poison one. `whole` is the task that the
    stage's task is a part of, or the same one.
    """
    dispatcher = processor(task)
    before = _undoable(dispatcher)
    whole.process(provoking(task, dispatcher))
    whole.punctuate()
    whole.initiate()
    whole.finish()
    whole.rollback()
    now = _undoable(dispatcher)
    return before, now


def _undoable(dispatcher: Dispatcher) -> dict[str, Any]:
    shared = dispatcher.shared
    sweep, workers = part(dispatcher, Sweep), shared.workers
    return {
        "derived": derived(dispatcher),
        "credits": {w.worker_id: (w.sent, w.limit) for w in workers.roster},
        "leases": {
            (job_id, lease.dropped, lease.sent_to) for job_id, lease in workers.running.items()
        },
        "given up": [(each.lease.job_id, each.lease.epoch) for each in workers.leases._given_up],
        "circuits": dict(shared.queue._caps.circuits._of),
        "sweep": (sweep._behind, sweep._due, shared.sweep_now),
        "behind": (
            part(dispatcher, Retention)._finished,
            part(dispatcher, Retention)._left,
            part(dispatcher, Submissions)._behind,
            part(dispatcher, Schedules)._behind,
            part(dispatcher, StartDeadlines)._behind,
        ),
        "spent": dict(shared.queue._caps.rates._arrivals),
        "seen": dict(part(dispatcher, HeldJobs)._seen),
        "dead types": set(part(dispatcher, UnhandledTypes)._dead_types),
    }


def faults(task: Task) -> Iterator[str]:
    """What is wrong with a dispatcher between two steps, in its stores or in its memory."""
    dispatcher = processor(task)
    table, workers = dispatcher._table, dispatcher.shared.workers
    sent = any(lease.sent_to for lease in workers._sent)
    if table._rows or table._stored or workers._over or sent or task.ctx.log:
        yield f"left over: {table._rows}, {table._stored}, {workers._over}, {task.ctx.log._undo}"
    yield from _of_rows(task.stores["jobs"])
    store = task.stores["parts"]
    yield from _of_cancels(store)
    yield from _of_groups(store, dispatcher)
    waiting = {tuple(split(key[1:])[:2]) for key, _ in _under(store, b"B")}
    known = {(type_, pool or "") for type_, pool in part(dispatcher, UnhandledTypes)._dead_types}
    if not waiting <= known:
        yield f"dead types {waiting}, known are {known}"
    for worker in workers.roster:
        place = (-worker.credits, worker.worker_id) if worker.credits else None
        if worker.place != place:
            yield f"worker {worker}"
    leases = workers.leases
    held = {job_id for own in leases._by_worker.values() for job_id in own}
    ordered = {job_id for _, job_id in leases._order}
    if not leases.running.keys() == held == ordered:
        yield f"leases {leases.running.keys()}, by worker {held}, in order {ordered}"


def _of_rows(store: KeyValueStore) -> Iterator[str]:
    found = dict(store.range(b"", b"\xff" * 64))
    rows = {key: value for key, value in found.items() if not key.startswith(INDEX)}
    index = {key: value for key, value in found.items() if key.startswith(INDEX)}
    expected = {
        key: value for row in rows.items() for key, value in live_index.derive(*row).items()
    }
    if index != expected:
        yield f"the index is {index}, of the rows {expected}"


def _of_cancels(store: KeyValueStore) -> Iterator[str]:
    forgotten = {tuple(split(key[9:])) for key, _ in _under(store, b"q")}
    parked = {tuple(split(key[1:])) for key, _ in _under(store, b"p")}
    if not parked <= forgotten:
        yield f"cancels {parked} wait, of which are forgotten {forgotten}"


def _of_groups(store: KeyValueStore, dispatcher: Dispatcher) -> Iterator[str]:
    """Places are those of live jobs, groups know them, and notes belong to a place."""
    places = {key[1:].decode(): orjson.loads(value) for key, value in _under(store, b"M")}
    groups = {key[1:].hex(): orjson.loads(value) for key, value in _under(store, b"A")}
    members = {job_id for group in groups.values() for job_id in group if job_id is not None}
    if not members <= places.keys():
        yield f"groups know {members}, of which have a place {places.keys()}"
    for job_id, place in places.items():
        job = dispatcher._table.get(job_id)
        if job is None or not is_live(job):
            yield f"{job_id} has a place and is {job and job.status}"
        is_known = job_id in groups.get(place["group"], ())
        if not is_known and not place["of_batch"]:
            yield f"{job_id} has a place that its group does not know"
    windows = {place["window"].encode() for place in places.values()}
    noted = {key[1:].split(b"\0")[0] for key, _ in _under(store, b"Q")}
    if not noted <= windows:
        yield f"notes of {noted - windows} belong to no place"
    for key, _ in _under(store, b"O"):
        due = dispatcher._table.get(key[9:].decode())
        if due is None or not is_live(due) or has_begun(due):
            yield f"{due and due.job_id} has a deadline that it needs no more"


def _under(store: KeyValueStore, prefix: bytes) -> list[tuple[bytes, bytes]]:
    return list(store.range(prefix, after(prefix)))
