"""Pages of job types."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("job_types")

pages.list("/console/job-types", "/v1/job-types", "Job types", "jobs.types")


@pages.get("/console/job-types/{type}")
async def job_type(asking: Asking, request: web.Request) -> Page:
    """One job type with its schemas."""
    name = request.match_info["type"]
    shown = await asking.get(f"/v1/job-types/{segment(name)}")
    return Page("job_types/type.html", f"Job type {name}", {"type": shown}, watch=("jobs.types",))
