"""Gives a waiting job the type, priority, pool and limits of the present topology.

Only a job that has not begun follows its route. A job that was ever leased keeps its type, and so
does one that a replay made, of a job or of an event: its type was chosen when it was made. The pool
always follows the type, unless an operator asked for another declared pool.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from streams.limits.keys import keyed
from streams.serde.records import Job
from streams.topology.flow_control import FlowControl
from streams.topology.limits import KEYED, Limit
from streams.topology.model import Topology


def routed(job: Job, topology: Topology, limits: tuple[Limit, ...]) -> Job:
    """A waiting job as the topology wants it; equal to the given job if nothing changed.

    `limits` are those of its tenant.
    """
    if job.event is not None and not is_replay(job) and not has_begun(job):
        route = topology.route(job.event.source, job.event.event_type)
        if route is not None and route.job is not None:
            draft, priority = job.draft or route.draft, route.priority_of(job.event)
            job = replace(job, type=route.job, priority=priority, draft=draft)
    return keyed(in_pool(job, topology), limits)


def in_pool(job: Job, topology: Topology) -> Job:
    """The job in the pool in which the topology lets it wait."""
    pool = pool_of(job.type, job.asked_pool, topology)
    return job if pool == job.pool else replace(job, pool=pool)


def pool_of(type_: str, asked_pool: str | None, topology: Topology) -> str:
    """The pool of a type's jobs; `asked_pool` takes precedence while it is declared."""
    if asked_pool is not None and asked_pool in topology.pools:
        return asked_pool
    return topology.job_type(type_).pool


def has_begun(job: Job) -> bool:
    """Whether the job was ever leased, or a job before it that it continues."""
    was_leased = job.run_id is not None or job.attempts > 0 or job.lost > 0
    return was_leased or job.continuations > 0


def is_replay(job: Job) -> bool:
    """Whether a replay made the job, of a job or of an event."""
    return job.replay_of is not None or job.replay_id is not None


def declared_for(job: Job, topology: Topology) -> tuple[FlowControl, ...]:
    """What flow control is declared for a job: first that of its route, then that of its type."""
    declared = topology.job_type(job.type)
    if job.event is None:
        return (declared,)
    route = topology.route(job.event.source, job.event.event_type)
    return (declared,) if route is None or route.job != job.type else (route, declared)


def digest(topology: Topology) -> bytes:
    """A digest that is equal for two topologies that route every job alike."""
    types = sorted((declared.name, declared.pool) for declared in topology.job_types.values())
    by_keys = (each for each in topology.limits if each.scope in KEYED)
    counted = [(each.name, each.scope, each.match, each.by) for each in by_keys]
    what = topology.routes, types, topology.pools, counted
    return blake2b(repr(what).encode(), digest_size=16).digest()
