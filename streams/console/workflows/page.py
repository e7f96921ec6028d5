"""Pages of workflows."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("workflows")

pages.list("/console/workflows", "/v1/workflows", "Workflows", "workflows")


@pages.get("/console/workflows/{workflow_id}")
async def workflow(asking: Asking, request: web.Request) -> Page:
    """One workflow: how it stands, its jobs as a tree and over time."""
    workflow_id = request.match_info["workflow_id"]
    shown = await asking.get(f"/v1/workflows/{segment(workflow_id)}", request.query)
    data = {"flow": shown}
    watch = ("workflows", "jobs")
    return Page("workflows/workflow.html", f"Workflow {workflow_id}", data, watch=watch)


@pages.get("/console/workflows/{workflow_id}/jobs/{job_id}")
async def part(asking: Asking, request: web.Request) -> Page:
    """One job of a workflow, with the jobs above it and below."""
    names = request.match_info
    path = f"/v1/workflows/{segment(names['workflow_id'])}/jobs/{segment(names['job_id'])}"
    shown = await asking.get(path, request.query)
    data = {"part": shown}
    return Page("workflows/part.html", f"Job {names['job_id']}", data, watch=("workflows", "jobs"))
