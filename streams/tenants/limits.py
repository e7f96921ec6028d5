"""Limits that a tenant has of its own, beside those of the topology.

They count that tenant's jobs alone, so they hold overall. One that has the name of a limit of the
topology replaces it for the tenant, unless that counts all tenants together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streams.topology.limit_rules import faults
from streams.topology.limits import Limit, Scope

SCOPES: tuple[Scope, ...] = "tenant", "job_type", "pool", "source", "key"
MOST = 100


def checked(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """The limits, if a tenant can have them.

    Raises:
        ValueError: it cannot; the message names each fault.
    """
    found = list(_faults(limits))
    if found:
        raise ValueError("; ".join(found))
    return limits


def own(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """A tenant's limits, each as what it is: one for each tenant, of which there is one."""
    are_shared = "job_type", "pool", "source"
    return tuple(
        replace(each, per="tenant") if each.scope in are_shared else each for each in limits
    )


def shared_names(limits: Sequence[Limit], declared: Sequence[Limit]) -> list[str]:
    """The names of limits that the topology has for all tenants together."""
    shared = {each.name for each in declared if not each.is_local}
    return [each.name for each in limits if each.name in shared]


def _faults(limits: tuple[Limit, ...]) -> Iterator[str]:
    if len(limits) > MOST:
        yield f"has {len(limits)} limits: a tenant has at most {MOST}"
    names = [limit.name for limit in limits]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name}: is given more than once: give each limit a name of its own"
    for given, limit in zip(limits, own(limits), strict=True):
        for key, wrong in (*_own_faults(given), *faults(replace(limit, shared=None))):
            yield f"{limit.name}: {f'{key}: ' if key else ''}{wrong}"


def _own_faults(limit: Limit) -> Iterator[tuple[str, str]]:
    if limit.scope not in SCOPES:
        yield "scope", f"scope {limit.scope} is not of one tenant: use {', '.join(SCOPES)}"
    if limit.scope == "tenant" and limit.match != "*":
        yield "match", "the limit is of this tenant alone: remove match"
    if limit.shared is not None:
        yield "shared", "the limit is of this tenant alone, and exact already: remove shared"
