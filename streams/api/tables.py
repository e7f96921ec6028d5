"""What the operator shows: a module for each topic with its table, its queries and its JSON."""

from __future__ import annotations

from streams.api.approvals import table as approvals
from streams.api.backlog import table as backlog
from streams.api.dead_letters import table as dead_letters
from streams.api.deliveries import attempts_table as attempts
from streams.api.deliveries import table as deliveries
from streams.api.duplicates import table as duplicates
from streams.api.effects import table as effects
from streams.api.effects import unknown as unknown_effects
from streams.api.endpoints import table as endpoints
from streams.api.events import table as events
from streams.api.job_types import table as job_types
from streams.api.jobs import held_table as held
from streams.api.jobs import progress_table as progress
from streams.api.jobs import table as jobs
from streams.api.limits import grants_table as limit_grants
from streams.api.live import table as live
from streams.api.quarantine import table as quarantine
from streams.api.rejections import table as rejections
from streams.api.replays import table as event_replays
from streams.api.rows.paging import Listing
from streams.api.rows.table import Table
from streams.api.schedules import table as schedules
from streams.api.steps import table as steps
from streams.api.tenants import table as tenants
from streams.api.workflows import table as workflows

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
