"""Every call of the operator's API."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef

from streams.api.resources import modules
from streams.api.serving import pages
from streams.api.serving.listing import lister
from streams.api.tables import LISTINGS


def routes() -> Iterator[AbstractRouteDef]:
    """Yield paths and their handlers; aiohttp tries them in this order."""
    for listing in LISTINGS:
        for path in listing.paths:
            yield web.get(path, lister(listing))
    for calls in modules("http"):
        yield from calls.routes
    yield from pages.routes
