"""Pages of endpoints."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("endpoints")

pages.list("/console/endpoints", "/v1/endpoints", "Endpoints", "tenants")


@pages.get("/console/endpoints/{tenant}/{endpoint}")
async def endpoint(asking: Asking, request: web.Request) -> Page:
    """One endpoint: its state, its last deliveries, and what may be done."""
    names = request.match_info
    path = f"/v1/tenants/{segment(names['tenant'])}/endpoints/{segment(names['endpoint'])}"
    shown = await asking.call("GET", path)
    deliveries = await asking.get(f"{path}/deliveries", limit=25)
    data = {"endpoint": shown.json, "tag": shown.tag, "deliveries": deliveries["deliveries"]}
    title = f"Endpoint {names['endpoint']}"
    return Page("endpoints/endpoint.html", title, data, watch=("tenants", "deliveries"))
