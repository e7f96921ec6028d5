"""The topology of a seed, in the state in which its operations have put it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

from simulation.handlers import SCRIPTS
from streams.topology.load import load
from streams.topology.model import JobType, Limit, Route, Topology

SOURCE = "shop"


@cache
def _shipped() -> Topology:
    return load()


@dataclass
class Wiring:
    """What `topology.yaml` says now: routes and pools that are there, caps, retention."""

    partitions: int
    cap: int = 0
    unrouted: set[str] = field(default_factory=set)
    heavy: bool = False
    """Whether there is a second pool, which `crm` runs in."""

    def topology(self) -> Topology:
        shipped = _shipped()
        topics = {
            name: replace(t, partitions=self.partitions)
            if t.partitions == shipped.partitions else t
            for name, t in shipped.topics.items()
        }  # fmt: skip
        if self.heavy:
            topics["jobs.work.heavy"] = replace(topics["jobs.work.default"], name="jobs.work.heavy")
        routes = [Route(SOURCE, t, t, "webhook") for t in SCRIPTS if t not in self.unrouted]
        limits = (Limit("per-tenant", "tenant", "*", concurrency=self.cap),) if self.cap else ()
        return replace(
            shipped,
            partitions=self.partitions,
            topics=topics,
            routes=tuple(routes),
            pools=("default", "heavy") if self.heavy else ("default",),
            job_types={"crm": JobType("crm", pool="heavy")} if self.heavy else {},
            limits=limits,
        )
