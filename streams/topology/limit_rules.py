"""The rules of limits: each has an effect, and is one that is enforced."""

from __future__ import annotations

from collections.abc import Iterator

from ingress.formats.paths import expression_fault
from streams.topology.limits import Limit
from streams.topology.model import Topology
from streams.topology.problems import Problem, problem


def limits(topology: Topology) -> Iterator[Problem]:
    """Every broken rule of limits."""
    for limit in topology.limits:
        path = "limits", limit.name
        for key, wrong in faults(limit):
            yield problem(wrong, (*path, key) if key else path)


def faults(limit: Limit) -> Iterator[tuple[str, str]]:
    """What is wrong with a limit: the key that says so, and what to write instead."""
    if limit.concurrency is None and limit.rate is None:
        yield "", "the limit limits nothing; set concurrency, rate or both"
    if limit.burst is not None and limit.rate is None:
        yield "burst", "a burst is of a rate, and the limit has none; set rate, or remove burst"
    if limit.burst is not None and limit.burst < limit.least_burst:
        yield (
            "burst",
            f"all partitions share the rate {limit.rate}, which takes a burst of "
            f"{limit.least_burst} or more; set burst: {limit.least_burst}, or shared: false",
        )
    if limit.shared is not None and (limit.scope == "tenant" or limit.per is not None):
        yield "shared", "it counts the jobs of one tenant, which is exact already; remove shared"
    if limit.per is not None and limit.scope in ("tenant", "key"):
        yield "per", f"scope {limit.scope} counts each tenant by itself already; remove per"
    yield from _key_faults(limit)


def _key_faults(limit: Limit) -> Iterator[tuple[str, str]]:
    if limit.scope != "key":
        if limit.by is not None:
            yield "by", "by is the expression of scope key; remove it, or set scope: key"
    elif limit.by is None:
        yield "by", "scope key counts by a value of the job; set by, as in by: input.customer"
    elif (wrong := expression_fault(limit.by)) is not None:
        yield "by", f"the expression {wrong}; correct it"
