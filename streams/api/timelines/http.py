"""Timelines of events and jobs."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import READ
from streams.api.serving.call import ROW, Calls, state_of
from streams.api.serving.listing import page_query
from streams.api.timelines import timeline
from streams.api.timelines.timeline import MOST_SPANS

calls = Calls()

_FILTERS = {"failed_only": ("true",)}


@calls.get("/v1/events/{event_id}/timeline", of=ROW, needs=READ)
async def get_event_timeline(request: web.Request) -> web.Response:
    """Show what became of an event as spans, from its delivery to its effects."""
    query, event_id = page_query(request, _FILTERS, MOST_SPANS), request.match_info["event_id"]
    return web.json_response(await timeline.of_event(state_of(request), event_id, query))


@calls.get("/v1/jobs/{job_id}/timeline", of=ROW, needs=READ)
async def get_job_timeline(request: web.Request) -> web.Response:
    """Show what a job did as spans, with its replays and the jobs that it asked for."""
    query, job_id = page_query(request, _FILTERS, MOST_SPANS), request.match_info["job_id"]
    return web.json_response(await timeline.of_job(state_of(request), job_id, query))
