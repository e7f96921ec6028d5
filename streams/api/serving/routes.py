"""Every call of the operator's API."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp.web_routedef import AbstractRouteDef

from streams.api.resources import modules
from streams.api.serving import pages
from streams.api.serving.listing import listed
from streams.api.tables import LISTINGS


def routes() -> Iterator[AbstractRouteDef]:
    """Yield paths and their handlers; aiohttp tries them in this order."""
    yield from listed(LISTINGS)
    for resource in modules("http"):
        yield from resource.calls
    yield from pages.calls
