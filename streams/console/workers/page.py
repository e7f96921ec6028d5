"""The page of workers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.serde.job_states import RUNNING

pages = Pages("workers")

_MOST = 200


@pages.get("/console/workers")
async def workers(asking: Asking, request: web.Request) -> Page:
    """What runs at each worker, which are drained, and why jobs find none."""
    tenant_id = request.query.get("tenant_id")
    running = await asking.get("/v1/jobs", status=RUNNING, limit=_MOST, tenant_id=tenant_id)
    held = await asking.get("/v1/held", limit=_MOST)
    known = await asking.get("/v1/workers")
    drained = [each for each in known["workers"] if each["drained"]]
    at: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for job in running["jobs"]:
        at[job["worker_id"] or "unknown"].append(job)
    data = {
        "workers": sorted(at.items()),
        "held": held["held"],
        "answer": running,
        "drained": drained,
    }
    return Page("workers/list.html", "Workers", data, watch=("jobs", "tenants"), is_list=True)
