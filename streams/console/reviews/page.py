"""The page of what a person has to find out: effects of unknown outcome, of live and ended jobs."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.serde.job_states import NEEDS_REVIEW

pages = Pages("reviews")

_JOBS = 20
"""Jobs in review on the page; the list of jobs has all of them."""


@pages.get("/console/reviews")
async def reviews(asking: Asking, request: web.Request) -> Page:
    """Jobs in review with what is unknown of them, then effects of jobs that have ended."""
    answer = await asking.get("/v1/effects/unknown", request.query)
    tenant_id = request.query.get("tenant_id")
    waiting = await asking.get("/v1/jobs", tenant_id=tenant_id, status=NEEDS_REVIEW, limit=_JOBS)
    data = {"answer": answer, "jobs": waiting}
    return Page("reviews/list.html", "Reviews", data, watch=("ledger", "jobs"), is_list=True)
