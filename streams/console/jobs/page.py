"""Pages of jobs."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("jobs")

pages.list("/console/jobs", "/v1/jobs", "Jobs", "jobs")


@pages.get("/console/jobs/{job_id}")
async def job(asking: Asking, request: web.Request) -> Page:
    """One job: how it stands, why it waits, its runs, steps, effects, and what may be done."""
    job_id = request.match_info["job_id"]
    shown = await asking.get(f"/v1/jobs/{segment(job_id)}")
    return Page("jobs/job.html", f"Job {job_id}", {"job": shown}, watch=("jobs", "ledger"))


@pages.get("/console/jobs/{job_id}/artifacts")
async def artifacts(asking: Asking, request: web.Request) -> Page:
    """What a job has saved; a page of its own, so that a slow store holds up no job's page."""
    job_id = request.match_info["job_id"]
    answer = await asking.get(f"/v1/jobs/{segment(job_id)}/artifacts")
    data = {"job_id": job_id, "artifacts": answer["artifacts"]}
    return Page("jobs/artifacts.html", f"Artifacts of {job_id}", data)
