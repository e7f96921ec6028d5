"""Every call of the operator's API, from the modules of their resources."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp.web_routedef import AbstractRouteDef

from streams.operator.http import (
    dead_letters,
    duplicates,
    effects,
    event_reroute,
    events,
    held,
    jobs,
    payloads,
    quarantine,
    rejections,
    tenants,
    vault,
)

_RESOURCES = (
    tenants, vault, jobs, held, effects, payloads, events, event_reroute, dead_letters, quarantine,
    rejections, duplicates,
)  # fmt: skip


def routes() -> Iterator[AbstractRouteDef]:
    """Paths and their handlers; aiohttp tries them in this order."""
    for resource in _RESOURCES:
        yield from resource.routes
