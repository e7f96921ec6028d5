"""Calls on the files that jobs have saved, and on what lies in the place of large values."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from streams.access.permissions import PAYLOAD_READ, READ
from streams.api.artifacts.stored import content, saved_by
from streams.api.serving.attachment import attachment
from streams.api.serving.call import ROW, Calls, state_of
from streams.serde.sizes import MAX_ARTIFACT_BYTES

calls = Calls()


@calls.get("/v1/jobs/{job_id}/artifacts", of=ROW, needs=READ)
async def list_artifacts(request: web.Request) -> web.Response:
    """List what a job has saved, at most 1,000, in the order of writing."""
    found = await saved_by(state_of(request), request.match_info["job_id"])
    return web.json_response({"artifacts": found})


@calls.get(
    "/v1/jobs/{job_id}/artifacts/{artifact}", of=ROW, needs=PAYLOAD_READ, verb="artifact.read"
)
async def get_artifact(request: web.Request) -> web.StreamResponse:
    """Answer the bytes that a job has saved."""
    state, path = state_of(request), request.match_info
    read = partial(content, state, path["job_id"], path["artifact"])
    return await attachment(request, MAX_ARTIFACT_BYTES, read)
