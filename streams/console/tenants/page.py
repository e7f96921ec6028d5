"""Pages of tenants and their sources."""

from __future__ import annotations

from aiohttp import web

from ingress.samples import names as names_of
from ingress.schemes import SCHEMES
from streams.console.serving.asked_for import Form
from streams.console.serving.asking import Answer, Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("tenants")

pages.list("/console/tenants", "/v1/tenants", "Tenants", "tenants")


@pages.get("/console/tenants/{tenant}")
async def tenant(asking: Asking, request: web.Request) -> Page:
    """One tenant: its sources and endpoints, and deliveries that were refused."""
    tenant_id = request.match_info["tenant"]
    path = f"/v1/tenants/{segment(tenant_id)}"
    shown = await asking.call("GET", path)
    sources = await asking.get(f"{path}/sources", limit=200)
    endpoints = await asking.get(f"{path}/endpoints", limit=200)
    rejections = await asking.get(f"{path}/rejections", limit=50)
    data = {
        "tenant": shown.json,
        "tag": shown.tag,
        "sources": sources["sources"],
        "endpoints": endpoints["endpoints"],
        "rejections": rejections["rejections"],
    }
    return Page("tenants/tenant.html", f"Tenant {tenant_id}", data, watch=("tenants",))


@pages.get("/console/tenants/{tenant}/sources/{source}")
async def source(asking: Asking, request: web.Request) -> Page:
    """One source: its scheme, mapping and secrets, and what may be done."""
    names = request.match_info
    shown = await asking.call(
        "GET", f"/v1/tenants/{segment(names['tenant'])}/sources/{segment(names['source'])}"
    )
    samples = names_of(scheme) if (scheme := shown.json.get("scheme")) in SCHEMES else []
    data = {"source": shown.json, "tag": shown.tag, "samples": samples}
    return Page("tenants/source.html", f"Source {names['source']}", data, watch=("tenants",))


@pages.answer("test")
async def tested(_: Asking, form: Form, answer: Answer) -> Page:
    """What became of a test event."""
    return Page("tenants/tested.html", "Test event", {"answer": answer.json, "form": form})
