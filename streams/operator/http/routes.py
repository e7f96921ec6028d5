"""Every call of the operator's API."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef

from streams.operator.http import (
    approvals,
    artifacts,
    backlog,
    dead_letters,
    deliveries,
    effects,
    endpoint_test,
    endpoints,
    event,
    event_replays,
    events,
    job_types,
    jobs,
    limits,
    live,
    moves,
    pages,
    pauses,
    quarantine,
    recoveries,
    schedules,
    schemas,
    signing,
    steps,
    tenants,
    vault,
    workflows,
)
from streams.operator.http.listing import lister
from streams.operator.resources import LISTINGS

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
