"""What applications announce of their job types, and the refusal of inputs that do not fit it."""

from __future__ import annotations

import sqlite3

from aiohttp import web

from streams.api.job_types import table as job_types
from streams.api.job_types.input_schema.check import misfits
from streams.api.job_types.table import job_type_json
from streams.api.operator_state import AppState
from streams.api.refusal import all_invalid, unknown
from streams.api.serving.state import STATE
from streams.model_faults import Fault

routes = web.RouteTableDef()


@routes.get("/v1/job-types")
async def list_job_types(request: web.Request) -> web.Response:
    """List the job types that workers have announced, by name, with their JSON schemas."""
    state = request.app[STATE]
    found = await state.query(job_types.job_types)
    return web.json_response({"job_types": [job_type_json(row, state.topology) for row in found]})


@routes.get("/v1/job-types/{type}")
async def get_job_type(request: web.Request) -> web.Response:
    """Show one job type as it was announced last."""
    state, name = request.app[STATE], request.match_info["type"]
    found = await state.query(lambda db: job_types.job_type(db, name))
    if found is None:
        hint = "no worker has announced it: compare the name with GET /v1/job-types"
        raise unknown("job type", name, hint)
    return web.json_response(job_type_json(found, state.topology))


async def refuse_misfit(state: AppState, type_: str, text: str) -> None:
    """Check the input of a new job, as JSON text, by what was announced last of its type.

    Raises:
        Refusal: 422 naming each field at fault.
    """

    def look(connection: sqlite3.Connection) -> list[Fault]:
        found = job_types.job_type(connection, type_)
        schema = None if found is None else found.type.input_schema
        return [] if schema is None else misfits(schema, text)

    faults = await state.query(look)
    if faults:
        raise all_invalid(faults)
