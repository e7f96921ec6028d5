"""Every call of the operator's API."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef

from streams.api.approvals import http as approvals
from streams.api.artifacts import http as artifacts
from streams.api.backlog import http as backlog
from streams.api.dead_letters import http as dead_letters
from streams.api.deliveries import http as deliveries
from streams.api.deliveries import http_recoveries as recoveries
from streams.api.effects import http as effects
from streams.api.endpoints import http as endpoints
from streams.api.endpoints import http_test as endpoint_test
from streams.api.events import http as event
from streams.api.events import http_batch as events
from streams.api.job_types import http as job_types
from streams.api.jobs import http as jobs
from streams.api.jobs import http_moves as moves
from streams.api.limits import http as limits
from streams.api.live import http as live
from streams.api.pauses import http as pauses
from streams.api.quarantine import http as quarantine
from streams.api.replays import http as event_replays
from streams.api.schedules import http as schedules
from streams.api.schemas import http as schemas
from streams.api.serving import pages
from streams.api.serving.listing import lister
from streams.api.sources import http_signing as signing
from streams.api.steps import http as steps
from streams.api.tables import LISTINGS
from streams.api.tenants import http as tenants
from streams.api.vault import http as vault
from streams.api.workflows import http as workflows

_CALLS = (
    tenants,
    signing,
    endpoints,
    vault,
    job_types,
    jobs,
    live,
    backlog,
    workflows,
    moves,
    limits,
    pauses,
    effects,
    approvals,
    schedules,
    steps,
    artifacts,
    events,
    event,
    event_replays,
    dead_letters,
    quarantine,
    deliveries,
    recoveries,
    endpoint_test,
    schemas,
    pages,
)


def routes() -> Iterator[AbstractRouteDef]:
    """Yield paths and their handlers; aiohttp tries them in this order."""
    for listing in LISTINGS:
        for path in listing.paths:
            yield web.get(path, lister(listing))
    for calls in _CALLS:
        yield from calls.routes
