"""What the parts of one partition share: the topology, and the state that is derived from jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streams.closed_tenants import ClosedTenants
from streams.dispatcher.part import Change
from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.workers.registry import WorkerRegistry
from streams.dispatcher.workers.roster import Roster
from streams.topology.limits import Limit
from streams.topology.model import Topology

if TYPE_CHECKING:
    from streams.dispatcher.wait_index import WaitIndex
    from streams.dispatcher.work_list import WorkList


@dataclass(slots=True)
class Shared:
    """One partition.

    - `queue` are the waiting jobs and what the running ones fill of the caps; `workers` are the
      workers and their leases. Both follow each change of a job, before the parts do.
    - `closed` are tenants whose waiting jobs are not leased.
    - `unrouted` is True until every live job follows the routing of the topology, and `uncounted`
      until the limits of the topology count every job that runs: nothing is leased before.
    - `gives_kept` is True while kept events are held against changed routes.
    - `count_anew` asks to count what runs from the first job on, since limits changed meanwhile.
    - `sweep_now` asks for a round of the sweep after the one that is under way, and `sweep_anew`
      for the round to begin anew.
    - `commanded_at` is when a worker's command was read last (monotonic seconds).
    - `without_worker` are pools and types that had no worker at the last look, and since when
      (milliseconds).
    - `open_waits` finds the waits of jobs, once the partition is restored.
    - `awaits_effects` is False while no job has waited for a shared effect: then nothing looks for
      what such a wait left.
    - `stops` are jobs below which all end, once the partition is restored.
    - `has_approvals` is False while no job has asked for an approval: then nothing looks for one.
    """

    topology: Topology
    partition: int
    queue: RunQueue
    workers: WorkerRegistry
    closed: ClosedTenants
    unrouted: bool = True
    uncounted: bool = True
    gives_kept: bool = False
    sweep_now: bool = False
    sweep_anew: bool = False
    count_anew: bool = False
    commanded_at: float = 0.0
    without_worker: dict[tuple[str, str], int] = field(default_factory=dict)
    awaits_effects: bool = False
    has_approvals: bool = False
    open_waits: WaitIndex = field(init=False)
    stops: WorkList = field(init=False)

    def limits_of(self, tenant_id: str) -> tuple[Limit, ...]:
        """The limits that count a tenant's jobs."""
        return self.queue.limited.caps.buckets.limits_of(tenant_id)

    def changed(self, change: Change) -> None:
        """Follow a change of a job."""
        self.workers.changed(change)
        self.queue.changed(change)


def shared(topology: Topology, roster: Roster, partition: int) -> Shared:
    """A partition of which nothing is known yet, in a process with these workers."""
    workers = WorkerRegistry(topology.leases, roster, partition)
    queue = RunQueue(topology, workers)
    closed = ClosedTenants(queue.block)
    return Shared(topology, partition, queue, workers, closed)
