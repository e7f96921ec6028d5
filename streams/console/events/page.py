"""Pages of events."""

from __future__ import annotations

from aiohttp import web

from streams.console.events.waterfall import bars
from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("events")

_SPANS = 200
"""Spans on a page of a waterfall."""

pages.list("/console/events", "/v1/events", "Events", "events")


@pages.get("/console/events/{event_id}")
async def event(asking: Asking, request: web.Request) -> Page:
    """One event, from delivery to effect."""
    event_id, query = request.match_info["event_id"], request.query
    shown = await asking.get(f"/v1/events/{segment(event_id)}")
    line = await asking.get(
        f"/v1/events/{segment(event_id)}/timeline",
        failed_only=query.get("failed_only"),
        cursor=query.get("cursor"),
        limit=_SPANS,
    )
    data = {"event": shown, "answer": line, "bars": bars(line)}
    return Page("events/event.html", f"Event {event_id}", data, watch=("events", "jobs", "ledger"))
