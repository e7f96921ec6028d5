"""What a dispatcher derives from its stores, and the same of one that was just built from them."""

from __future__ import annotations

from typing import Any

from streams.dispatcher.stage import Dispatcher
from streams.runtime.task import Task


def derived(dispatcher: Dispatcher) -> tuple[Any, ...]:
    """Waiting jobs and their places, leases of running ones, filled caps, closed tenants."""
    shared = dispatcher.shared
    waiting = {
        (pool, job_id, entry[0], lane.tenant.id, lane.type, lane.priority)
        for pool, queue in shared.queue.queues.items()
        for job_id, entry in queue._members.items()
        for lane in (queue._lanes[entry[2]],)
    }
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
    closed = (set(shared.disabled), set(shared.erased))
    return waiting, charged, running, dict(shared.queue._caps._running), closed


def processor(task: Task) -> Dispatcher:
    """The processor of a dispatcher's task."""
    found = task._processor._processor
    assert isinstance(found, Dispatcher)
    return found


def rebuilt(task: Task) -> tuple[Any, ...]:
    """The same as `derived` of a dispatcher that was just built from the task's stores."""
    shared = processor(task).shared
    fresh = Dispatcher(shared.topology, shared.cluster_key, shared.partition)
    for _ in fresh.restored(task.ctx):
        pass
    return derived(fresh)
