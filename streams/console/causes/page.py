"""Pages of causes."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("causes")

pages.list("/console/causes", "/v1/causes", "Causes", "dlq")


@pages.get("/console/causes/{cause_id}")
async def cause(asking: Asking, request: web.Request) -> Page:
    """One cause: a sample with its traceback, its letters, and what may be done about all."""
    id_ = request.match_info["cause_id"]
    found = await asking.get(f"/v1/causes/{segment(id_)}")
    letters = await asking.get("/v1/dlq", cause=id_, limit=25, cursor=request.query.get("cursor"))
    sample = found.get("sample")
    letter = await asking.get_if_there(f"/v1/dlq/{segment(sample['id'])}") if sample else None
    data = {"cause": found, "answer": letters, "letter": letter}
    return Page("causes/cause.html", found["error_class"] or "Cause", data, watch=("dlq", "jobs"))
