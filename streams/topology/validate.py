"""The rules of a topology; each is a function that yields what breaks it.

They uphold the guarantees: what must outlive what (G1), which topics meet partition by partition
(G6), and that every declared limit has an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from streams.access.permissions import CUSTOM, ROLES, all_roles
from streams.topology.by_value import fault
from streams.topology.flow_rules import flow_control
from streams.topology.lifetimes import cleanups, clocks, days, lifetimes, outlives, retention
from streams.topology.limit_rules import limits
from streams.topology.model import (
    FUSED,
    Route,
    StageDeclaration,
    StoreDeclaration,
    Topic,
    Topology,
)
from streams.topology.problems import Problem, near, problem
from streams.topology.secrecy_rules import secrecy
from streams.topology.sizes import LEAST_KIB, too_small
from streams.topology.yaml_tree import KeyPath

Found = Iterator[Problem]


def validate(topology: Topology) -> list[Problem]:
    """Every broken rule; none for a sound topology."""
    return [found for rule in _RULES for found in rule(topology)]


def _roles(topology: Topology) -> Found:
    for name, permissions in topology.roles.items():
        if name in (*ROLES, CUSTOM):
            yield problem(f"{name} is a role already; choose another name", ("roles", name))
        elif not permissions:
            yield problem(f"{name} has no permission; give it one, or remove it", ("roles", name))


def _issuers(topology: Topology) -> Found:
    roles = all_roles(topology.roles)
    for each in topology.issuers.values():
        for keys, wrong in each.faults(roles):
            yield problem(wrong, ("issuers", each.name, *keys))


def _sizes(topology: Topology) -> Found:
    for topic in topology.topics.values():
        why = too_small(topic.name, topic.max_message_bytes)
        if why is not None:
            yield problem(
                f"{topic.name} {why}; set max_message_kib to {LEAST_KIB} or more",
                ("topics", topic.name, "max_message_kib"),
            )


def _partitions(topology: Topology) -> Found:
    """Topics keyed by tenant are co-partitioned: inputs with each other and with changelogs."""
    for topic in topology.topics.values():
        if topic.partitions != topology.partitions:
            yield problem(
                f"{topic.name} has {topic.partitions} partitions, but a tenant has one partition "
                "number on all topics and changelogs of a stage, and there are "
                f"{topology.partitions}; "
                "remove partitions here, or set the topology's own",
                ("topics", topic.name, "partitions"),
                ("partitions",),
            )


def _names(topology: Topology) -> Found:
    """A transactional id is a stage's name, "-" and an instance, and no other stage's may be."""
    for name in topology.stages:
        for other in (FUSED, "operator", *topology.stages):
            if name.startswith(f"{other}-"):
                yield problem(
                    f"{name} begins like the transactional ids of {other}, so that either could "
                    "fence the other; give it another name",
                    ("stages", name),
                )


def _stages(topology: Topology) -> Found:
    for stage in topology.stages.values():
        yield from _reads(topology, stage)
        yield from _writes(topology, stage)
        for store in stage.stores:
            yield from _changelog(topology, stage, store)
    yield from _shared_changelogs(topology)


def _reads(topology: Topology, stage: StageDeclaration) -> Found:
    path = ("stages", stage.name, "reads")
    for index, name in enumerate(stage.reads):
        topic = topology.topics.get(name)
        if topic is None:
            hint = near(name, topology.topics)
            yield problem(f"topic {name!r} is not declared{hint}; add it to topics", (*path, index))


def _writes(topology: Topology, stage: StageDeclaration) -> Found:
    for index, glob in enumerate(stage.writes):
        if not any(fnmatchcase(name, glob) for name in topology.topics):
            yield problem(
                f"{glob!r} names no declared topic{near(glob, topology.topics)}; add it to topics",
                ("stages", stage.name, "writes", index),
            )


def _changelog(topology: Topology, stage: StageDeclaration, store: StoreDeclaration) -> Found:
    topic = topology.topics.get(store.changelog)
    path = ("stages", stage.name, "stores", store.name)
    if topic is None:
        hint = near(store.changelog, topology.topics)
        yield problem(
            f"changelog {store.changelog!r} is not declared{hint}; add it to topics",
            (*path, "changelog"),
        )
        return
    wanted = "compact,delete" if store.kind == "window" else "compact"
    if topic.cleanup != wanted:
        yield problem(
            f"the changelog of a {store.kind} store needs cleanup {wanted!r}, not "
            f"{topic.cleanup!r}; change it",
            ("topics", topic.name, "cleanup"),
            (*path, "kind"),
        )
    elif store.kind == "window":
        yield from _window_changelog(topology, stage, topic)


def _window_changelog(topology: Topology, stage: StageDeclaration, changelog: Topic) -> Found:
    """A stage may lag by all that its inputs keep, and then needs the window before that."""
    lag_ms, read = max(
        ((t.retention_ms or 0, t.name) for t in map(topology.topics.get, stage.reads) if t),
        default=(0, ""),
    )
    yield from outlives(
        topology,
        changelog.name,
        topology.window_ms + lag_ms,
        ("window_days",),
        f"the window of {days(topology.window_ms)} days and the {days(lag_ms)} of {read}, by "
        f"which {stage.name} may lag: a rebuilt store would let duplicates pass",
    )


def _shared_changelogs(topology: Topology) -> Found:
    owners: dict[str, str] = {}
    for stage in topology.stages.values():
        for store in stage.stores:
            owner = owners.setdefault(store.changelog, f"{stage.name}.{store.name}")
            if owner != f"{stage.name}.{store.name}":
                yield problem(
                    f"{store.changelog} is already the changelog of {owner}; give each store its "
                    "own",
                    ("stages", stage.name, "stores", store.name, "changelog"),
                )


def _fused(topology: Topology) -> Found:
    """Fused names are stages, each once, and no two share an input or a store's name."""
    owners: dict[str, str] = {}
    for index, name in enumerate(topology.fused):
        path = ("fused", index)
        if name not in topology.stages:
            hint = near(name, topology.stages)
            yield problem(f"no stage {name!r}{hint}; name stages of this file", path)
        elif name in topology.fused[:index]:
            yield problem(f"stage {name!r} is fused twice; name it once", path)
        else:
            stage = topology.stages[name]
            for thing in (*stage.reads, *(f"a store {store.name}" for store in stage.stores)):
                if (owner := owners.setdefault(thing, name)) != name:
                    yield problem(
                        f"{owner} and {name} both have {thing}, so they cannot be fused; take one "
                        "of them out of `fused`",
                        path,
                    )


def _jobs(topology: Topology) -> Found:
    """Routes do something, and job types lead to a pool."""
    for index, route in enumerate(topology.routes):
        yield from _ends_and_makes(route, ("routes", index))
    for job in topology.job_types.values():
        if job.pool not in topology.pools:
            hint = near(job.pool, topology.pools)
            yield problem(
                f"pool {job.pool!r} is not declared{hint}; add it to pools",
                ("job_types", job.name, "pool"),
            )


def _ends_and_makes(route: Route, path: KeyPath) -> Found:
    """A route makes a job, or cancels some by a value that events have."""
    if route.job is None and route.cancels is None:
        yield problem("the route does nothing with its events; add job or cancels", path)
    if route.job is None and route.draft:
        yield problem(
            "the route makes no job, so draft has no effect; add job, or remove it",
            (*path, "draft"),
        )
    wrong = None if route.cancels is None else fault(route.cancels.by)
    if wrong is not None:
        yield problem(wrong, (*path, "cancels", "by"))


def _leases(topology: Topology) -> Found:
    leases = topology.leases
    if leases.heartbeat_seconds >= leases.term_seconds / 3:
        yield problem(
            f"heartbeat_seconds {leases.heartbeat_seconds:g} is not below a third of the term of "
            f"{leases.term_seconds:g} s: one lost heartbeat or two would end a lease; shorten it, "
            "or lengthen term_seconds",
            ("leases", "heartbeat_seconds"),
            ("leases", "term_seconds"),
        )
    if leases.margin_seconds >= leases.term_seconds / 2:
        yield problem(
            f"margin_seconds {leases.margin_seconds:g} is not below half of the term of "
            f"{leases.term_seconds:g} s: workers would hardly work; shorten it, or lengthen "
            "term_seconds",
            ("leases", "margin_seconds"),
            ("leases", "term_seconds"),
        )


_RULES = (
    lifetimes,
    retention,
    cleanups,
    clocks,
    _sizes,
    _partitions,
    _names,
    _stages,
    _fused,
    _jobs,
    flow_control,
    limits,
    _leases,
    secrecy,
    _roles,
    _issuers,
)
