"""Pages of schedules."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("schedules")

pages.list("/console/schedules", "/v1/schedules", "Schedules", "schedules")


@pages.get("/console/schedules/{tenant}/{schedule_id}")
async def schedule(asking: Asking, request: web.Request) -> Page:
    """One schedule with its next five times."""
    names = request.match_info
    path = f"/v1/tenants/{segment(names['tenant'])}/schedules/{segment(names['schedule_id'])}"
    shown = await asking.get(path)
    data = {"schedule": shown}
    title = f"Schedule {names['schedule_id']}"
    return Page("schedules/schedule.html", title, data, watch=("schedules",))
