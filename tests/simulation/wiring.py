"""The topology of a seed, in the state in which its operations have put it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from simulation.flow_control import BATCHED, DEBOUNCED, ONE_BY_ONE
from simulation.handlers import SCRIPTS
from simulation.limits import Setup, limits_of
from streams.topology.breakers import Breaker
from streams.topology.flow_control import Batch, Debounce, Singleton
from streams.topology.limits import Limit, MaxQueued
from streams.topology.load import load
from streams.topology.model import (
    ApprovalRule,
    Cancels,
    Events,
    JobType,
    Route,
    Topology,
)

TENANTS = ("acme", "globex", "initech")
SOURCE = "shop"
ANSWER, HALT = "answer", "halt"
_WAIT = ("patient", "racer", "novel", "chase")
_TYPES = {
    **{name: JobType(name, waits_for=(Events(SOURCE, ANSWER),)) for name in _WAIT},
    "letter": JobType("letter", draft=True),
    DEBOUNCED: JobType(DEBOUNCED, debounce=Debounce(7, 20, "subject")),
    BATCHED: JobType(BATCHED, batch=Batch(4, 9, "subject")),
    ONE_BY_ONE: JobType(ONE_BY_ONE, singleton=Singleton("queue_one", "subject")),
}
_APPROVALS = (ApprovalRule("pay:*", job_type="grant"),)
_HALT = Route(SOURCE, HALT, None, "webhook", Cancels("chase", "subject"))


@cache
def _shipped() -> Topology:
    return load()


@dataclass
class Wiring:
    """What `topology.yaml` says now: routes and pools that are there, caps, retention."""

    partitions: int
    cap: int = 0
    shared: int = 0
    """How many jobs may run at once over all partitions; 0: any number."""
    tool_cap: int = 0
    """How many calls of a tool may be under way over all partitions; 0: any number."""
    model_cap: int = 0
    """The same of a model."""
    max_queued: int = 0
    """How many jobs of a tenant may wait before new ones are refused; 0: any number."""
    breaker: int = 0
    """After how many failed calls a tool is left alone; 0: never."""
    unrouted: set[str] = field(default_factory=set)
    heavy: bool = False
    """Whether there is a second pool, which `crm` runs in."""
    rerouted: int = 0
    """How often routes have changed."""
    limits: Setup = field(default_factory=Setup)

    def toggle_route(self, name: str) -> bool:
        """Add or take away the route of a job type, or that of `halt`; whether it is there now."""
        self.unrouted ^= {name}
        self.rerouted += 1
        return name not in self.unrouted

    def topology(self) -> Topology:
        built = _built(self.partitions, frozenset(self.unrouted), self.heavy)
        limits = (
            *limits_of(self.cap, self.limits),
            Limit("together", "global", concurrency=self.shared or None),
            Limit("per-tool", "tool", concurrency=self.tool_cap or None),
            Limit("per-model", "model", concurrency=self.model_cap or None),
        )
        queued = (MaxQueued("tenant", self.max_queued),) if self.max_queued else ()
        return replace(_limited(built, limits, self.breaker), max_queued=queued)


def _limited(built: Topology, limits: tuple[Limit, ...], breaker: int) -> Topology:
    limits = tuple(limit for limit in limits if limit.concurrency is not None or limit.rate)
    breakers = (Breaker("*", breaker, seconds=60, open_seconds=10),) if breaker else ()
    return replace(built, limits=limits, breakers=breakers)


@lru_cache(256)
def _built(partitions: int, unrouted: frozenset[str], heavy: bool) -> Topology:
    shipped = _shipped()
    topics = {
        name: replace(t, partitions=partitions) if t.partitions == shipped.partitions else t
        for name, t in shipped.topics.items()
    }
    routes = [Route(SOURCE, t, t, "webhook") for t in SCRIPTS if t not in unrouted]
    if HALT not in unrouted:
        routes.append(_HALT)
    return replace(
        shipped,
        partitions=partitions,
        topics=topics,
        routes=tuple(routes),
        pools=("default", "heavy") if heavy else ("default",),
        job_types=_TYPES | ({"crm": JobType("crm", pool="heavy")} if heavy else {}),
        lookback_ms=90 * 86_400_000,
        approvals=_APPROVALS,
    )
