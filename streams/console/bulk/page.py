"""Pages of bulk acts."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("bulk")

pages.list("/console/bulk", "/v1/bulk", "Bulk acts", "bulk")


@pages.get("/console/bulk/{bulk_id}")
async def act(asking: Asking, request: web.Request) -> Page:
    """One bulk act: its ramp, its progress, and its items."""
    bulk_id = request.match_info["bulk_id"]
    shown = await asking.get(f"/v1/bulk/{segment(bulk_id)}")
    items = await asking.get(f"/v1/bulk/{segment(bulk_id)}/items", request.query)
    data = {"act": shown, "answer": items}
    return Page("bulk/act.html", f"Bulk act {bulk_id}", data, watch=("bulk",))
