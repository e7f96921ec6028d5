"""What is declared and cannot work together: routes, handlers, pools and limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path

from streams.dev.layout import DEFAULT_POOL
from streams.errors import ConfigError
from streams.topology.model import Topology

_PACKAGES, _PLACE = ("streams", "ingress"), Path(__file__).parents[2]
"""Tidegate's packages, and the folder that they are in."""
_SUBMIT = "submit a job with tidegate jobs submit TYPE --tenant TENANT"


def remarks(topology: Topology, handled: Collection[str], tenants: Collection[str]) -> list[str]:
    """Warnings about routes, handlers and limits; `handled` are the application's job types."""
    return [
        *_without_handler(topology, handled),
        *_without_route(topology, handled),
        *_mistaken_limits(topology, handled, tenants),
    ]


def shadows(folder: Path) -> Iterator[str]:
    """A warning for each module of the folder, or of its tests, named like a package of Tidegate's.

    pytest imports from both folders.
    """
    for name, place in product(_PACKAGES, (folder, folder / "tests")):
        for path in (place / f"{name}.py", place / name / "__init__.py"):
            if path.exists() and not path.resolve().is_relative_to(_PLACE / name):
                yield (
                    f"{path.relative_to(folder)} has the name of Tidegate's package {name!r}: the "
                    "workers import Tidegate's, and the tests here import yours, so rename it"
                )


def unstaffed(topology: Topology, handled: Collection[str], staffed: Collection[str]) -> list[str]:
    """A warning for each pool whose jobs no worker process runs.

    Raises:
        ConfigError: a worker is asked for in a pool that is not declared.
    """
    if unknown := sorted(set(staffed) - set(topology.pools)):
        raise ConfigError(
            f"--pool {unknown[0]!r} is not in the topology; its pools are: "
            f"{', '.join(topology.pools)}"
        )
    return [
        f"pool {pool!r} has no worker, so {_named(types, 'job type')} waits: add --pool {pool}=1"
        for pool in topology.pools
        if pool not in staffed and (types := _types_of(topology, pool, handled))
    ]


def _types_of(topology: Topology, pool: str, handled: Collection[str]) -> list[str]:
    placed = {name: job.pool for name, job in topology.job_types.items()}
    known = {*handled, *placed, *topology.routed_types}
    return sorted(name for name in known if placed.get(name, DEFAULT_POOL) == pool)


def _without_handler(topology: Topology, handled: Collection[str]) -> Iterator[str]:
    hours = topology.unhandled_ms / 3_600_000
    for job in sorted(topology.routed_types - set(handled)):
        yield (
            f"a route makes jobs of type {job!r}, and the application has no handler for it: they "
            f"wait {hours:g} h, then they are dead; declare @app.job({job!r}) or remove the route"
        )
    if types := sorted(set(topology.job_types) - topology.routed_types - set(handled)):
        yield (
            f"note: the application has no handler for {_named(types, 'job type')} of the "
            f"topology: jobs that are submitted wait {hours:g} h, then they are dead"
        )


def _without_route(topology: Topology, handled: Collection[str]) -> Iterator[str]:
    if types := sorted(set(handled) - topology.routed_types):
        yield f"note: no route leads to {_named(types, 'job type')}; {_SUBMIT}"


def _mistaken_limits(
    topology: Topology, handled: Collection[str], tenants: Collection[str]
) -> Iterator[str]:
    # The stages tell of types that the topology names (`streams/topology/doubts.py`).
    types = {*handled} - {*topology.job_types, *topology.routed_types}
    for limit in topology.limits:
        if limit.scope == "tenant" and limit.match in types:
            yield (
                f"limit {limit.name!r} counts jobs of a tenant named {limit.match!r}, which is a "
                "job type: write scope: job_type if you mean the type"
            )
        if limit.scope == "job_type" and limit.match in tenants:
            yield (
                f"limit {limit.name!r} counts jobs of a type named {limit.match!r}, which is a "
                "tenant: write scope: tenant if you mean the tenant"
            )


def _named(names: Collection[str], kind: str) -> str:
    return f"{kind}{'s' * (len(names) != 1)} {', '.join(map(repr, names))}"
