"""A plan's remarks on pools: those new to a cluster, and those that the file no longer has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from streams.topology.cluster import Cluster
from streams.topology.model import Topology

_WORK = "jobs.work."


def pool_notes(
    topology: Topology, cluster: Cluster, prefix: str, deleted: Collection[str]
) -> Iterator[str]:
    """A remark for each pool on one side only; `deleted` are topics that will be deleted."""
    there = {
        name.removeprefix(prefix + _WORK)
        for name in cluster.topics
        if name.startswith(prefix + _WORK) and name.removeprefix(prefix) not in deleted
    }
    for pool in sorted(there - set(topology.pools)):
        yield _removed(pool, prefix + _WORK + pool)
    if there:  # otherwise the cluster is new, and every pool with it
        for pool in topology.pools:
            if pool not in there:
                yield _new(pool, topology)


def _removed(pool: str, topic: str) -> str:
    return (
        f"{topic} is there, and no pool {pool!r} is declared. A dispatcher that runs leases to it "
        "as before. One that starts with this file leases nothing to it: waiting jobs go to the "
        "pool of their type, running ones end where they run, and workers of the pool are told. "
        f"`tidegate worker --pool {pool}` is refused with this file. Start the dispatchers again, "
        f"stop the pool's workers, then --delete {_WORK}{pool}"
    )


def _new(pool: str, topology: Topology) -> str:
    types = [job.name for job in topology.job_types.values() if job.pool == pool]
    if pool == "default":
        types.append("every type that is not in job_types")
    runs = f"for {', '.join(types)}" if types else "and no job type runs in it"
    return (
        f"pool {pool!r} is new to this cluster, {runs}. A dispatcher that runs does not know it: "
        "it leases nothing to the pool's workers, and tells them so. Start the dispatchers again "
        "with this file"
    )
