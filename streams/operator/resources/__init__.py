"""What the operator shows: a module for each topic with its table, its queries and its JSON."""

from __future__ import annotations

from streams.operator.resources import (
    approvals,
    attempts,
    backlog,
    dead_letters,
    deliveries,
    duplicates,
    effects,
    endpoints,
    event_replays,
    events,
    held,
    job_types,
    jobs,
    limit_grants,
    live,
    progress,
    quarantine,
    rejections,
    schedules,
    steps,
    tenants,
    unknown_effects,
    workflows,
)
from streams.operator.resources.paging import Listing
from streams.operator.resources.table import Table

_RESOURCES = (
    jobs,
    held,
    backlog,
    progress,
    job_types,
    live,
    steps,
    effects,
    approvals,
    schedules,
    workflows,
    limit_grants,
    dead_letters,
    tenants,
    quarantine,
    rejections,
    duplicates,
    events,
    endpoints,
    deliveries,
    attempts,
    event_replays,
)

TABLES: tuple[Table, ...] = tuple(resource.TABLE for resource in _RESOURCES)
LISTINGS: tuple[Listing, ...] = tuple(
    resource.LISTING for resource in (*_RESOURCES, unknown_effects) if hasattr(resource, "LISTING")
)
"""The lists that need no code of their own."""
