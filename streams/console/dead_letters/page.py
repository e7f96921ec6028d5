"""Pages of dead letters."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("dead_letters")

pages.list("/console/dlq", "/v1/dlq", "Dead letters", "dlq")


@pages.get("/console/dlq/{id}")
async def letter(asking: Asking, request: web.Request) -> Page:
    """One dead letter: why it is here, its job or its record, and what may be done."""
    id_ = request.match_info["id"]
    shown = await asking.get(f"/v1/dlq/{segment(id_)}")
    data = {"letter": shown}
    return Page("dead_letters/letter.html", f"Dead letter {id_}", data, watch=("dlq", "jobs"))
