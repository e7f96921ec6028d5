"""The topology of a seed, in the state in which its operations have put it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from simulation.handlers import SCRIPTS
from streams.topology.load import load
from streams.topology.model import Events, JobType, Limit, Route, Topology

SOURCE = "shop"


ANSWER = "answer"
PATIENT = {
    name: JobType(name, waits_for=(Events(SOURCE, ANSWER),)) for name in ("patient", "racer")
}


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
        return _built(self.partitions, self.cap, frozenset(self.unrouted), self.heavy)


@lru_cache(256)
def _built(partitions: int, cap: int, unrouted: frozenset[str], heavy: bool) -> Topology:
    shipped = _shipped()
    topics = {
        name: replace(t, partitions=partitions) if t.partitions == shipped.partitions else t
        for name, t in shipped.topics.items()
    }
    if heavy:
        topics["jobs.work.heavy"] = replace(topics["jobs.work.default"], name="jobs.work.heavy")
    routes = [Route(SOURCE, t, t, "webhook") for t in SCRIPTS if t not in unrouted]
    limits = (Limit("per-tenant", "tenant", "*", concurrency=cap),) if cap else ()
    return replace(
        shipped,
        partitions=partitions,
        topics=topics,
        routes=tuple(routes),
        pools=("default", "heavy") if heavy else ("default",),
        job_types=PATIENT | ({"crm": JobType("crm", pool="heavy")} if heavy else {}),
        lookback_ms=90 * 86_400_000,
        limits=limits,
    )
