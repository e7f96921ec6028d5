"""Pages of the quarantine."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("quarantine")

pages.list("/console/quarantine", "/v1/quarantine", "Quarantine", "quarantine")


@pages.get("/console/quarantine/{id}")
async def entry(asking: Asking, request: web.Request) -> Page:
    """One body: why it is here, and its release."""
    id_ = request.match_info["id"]
    shown = await asking.get(f"/v1/quarantine/{segment(id_)}")
    path = f"/v1/tenants/{segment(shown['tenant_id'])}/sources/{segment(shown['source'])}"
    source, tag = await asking.tagged_if_there(path)
    data = {"entry": shown, "source": source, "tag": tag}
    return Page("quarantine/entry.html", f"Body {id_}", data, watch=("quarantine",))
