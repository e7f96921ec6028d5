"""Doubts about a sound topology: what it declares is allowed, but does nothing as it stands.

They are warnings and not broken rules, because the file does not name every job type: a worker may
handle, and a caller may submit, a type that neither `job_types` nor a route mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from streams.topology.limits import Limit, MaxQueued
from streams.topology.model import Route, Topology
from streams.topology.policies import ATTRIBUTES, Policy
from streams.topology.problems import Problem, near, problem
from streams.topology.yaml_tree import KeyPath

_MAGIC = re.compile(r"[*?\[]")


def doubts(topology: Topology) -> list[Problem]:
    """Every doubt; none for a topology in which all has an effect."""
    return [*_limits(topology), *_routes(topology), *_policies(topology)]


def _limits(topology: Topology) -> Iterator[Problem]:
    types = {*topology.job_types, *topology.routed_types}
    for limit in topology.limits:
        yield from _match(limit, types, ("limits", limit.name))
    for index, cap in enumerate(topology.max_queued):
        yield from _match(cap, types, ("max_queued", index))


def _match(limit: Limit | MaxQueued, types: set[str], path: KeyPath) -> Iterator[Problem]:
    """Name a `match` that selects nothing of its scope."""
    match = (*path, "match")
    if limit.scope == "tenant" and limit.match in types:
        yield problem(
            f"scope tenant caps the tenant named {limit.match!r}, but {limit.match!r} is a job "
            "type; set scope: job_type if you mean the type",
            match,
            (*path, "scope"),
        )
    elif limit.scope == "job_type" and not _matches_one(limit, types):
        yield problem(
            f"{limit.match!r} matches no type of job_types or routes"
            f"{near(limit.match, types)}; correct it, or declare the type under job_types if "
            "its jobs are submitted directly: they are capped",
            match,
        )
    elif limit.scope == "global" and limit.match != "*":
        yield problem(
            f"scope global counts all jobs, so match {limit.match!r} has no effect; remove it, "
            "or set scope: job_type or tenant",
            match,
        )


def _matches_one(limit: Limit | MaxQueued, types: set[str]) -> bool:
    return limit.match == "*" or any(fnmatchcase(name, limit.match) for name in types)


def _routes(topology: Topology) -> Iterator[Problem]:
    """Name routes that get no event, because an earlier route takes all of theirs."""
    for index, route in enumerate(topology.routes):
        earlier = next((n for n in range(index) if _covers(topology.routes[n], route)), None)
        if earlier is not None:
            yield problem(
                f"source {route.source!r} with event_type {route.event_type!r} matches nothing "
                f"here: route {earlier} takes all such events first; move this route above it, or "
                "remove one",
                ("routes", index),
            )
        yield from _cancels(topology, index)


def _cancels(topology: Topology, index: int) -> Iterator[Problem]:
    """Name a type that no event's job has: a cancel compares events."""
    cancels, types = topology.routes[index].cancels, topology.routed_types
    if cancels is not None and cancels.job not in types:
        yield problem(
            f"no route makes jobs of type {cancels.job!r}{near(cancels.job, types)}, and only jobs "
            "of events are cancelled by events; correct it, or add the route",
            ("routes", index, "cancels", "job"),
        )


def _policies(topology: Topology) -> Iterator[Problem]:
    """Name policies that decide about no effect, because an earlier one does."""
    for index, policy in enumerate(topology.policies):
        before = topology.policies[:index]
        earlier = next((each for each in before if _decides_first(each, policy)), None)
        if earlier is not None:
            yield problem(
                f"policy {earlier.name} decides about all its effects first; move this one above "
                "it, or remove one",
                ("policies", policy.name),
            )


def _decides_first(earlier: Policy, later: Policy) -> bool:
    return all(_wider(getattr(earlier, each), getattr(later, each)) for each in ATTRIBUTES)


def _covers(earlier: Route, later: Route) -> bool:
    return _wider(earlier.source, later.source) and _wider(earlier.event_type, later.event_type)


def _wider(earlier: str, later: str) -> bool:
    """Whether all that `later` matches is surely matched by `earlier`; False where unsure."""
    if earlier == later:
        return True
    if not _MAGIC.search(later):
        return fnmatchcase(later, earlier)
    prefix = earlier[:-1]
    return earlier.endswith("*") and not _MAGIC.search(prefix) and later.startswith(prefix)
