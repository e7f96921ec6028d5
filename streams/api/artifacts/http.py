"""Calls on the files that jobs have saved, and on what lies in the place of large values."""

from __future__ import annotations

from aiohttp import web

from streams.api.artifacts.stored import content, saved_by
from streams.api.serving.attachment import attachment
from streams.api.serving.state import STATE

routes = web.RouteTableDef()


@routes.get("/v1/jobs/{job_id}/artifacts")
async def list_artifacts(request: web.Request) -> web.Response:
    """List what a job has saved, at most 1,000, in the order of writing."""
    found = await saved_by(request.app[STATE], request.match_info["job_id"])
    return web.json_response({"artifacts": found})


@routes.get("/v1/jobs/{job_id}/artifacts/{artifact}")
async def get_artifact(request: web.Request) -> web.Response:
    """Answer the bytes that a job has saved."""
    path = request.match_info
    return attachment(await content(request.app[STATE], path["job_id"], path["artifact"]))
