"""The page of limits, pauses and full backlogs."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages

pages = Pages("limits")


@pages.get("/console/limits")
async def limits(asking: Asking, request: web.Request) -> Page:
    """Limits with their buckets, what is paused, and backlogs near their caps."""
    answer = await asking.get("/v1/limits", request.query)
    backlog = await asking.get("/v1/backlog")
    data = {"answer": answer, "backlog": backlog["backlog"]}
    return Page("limits/list.html", "Limits", data, watch=("limits.grants",), is_list=True)
