"""Calls on workflows: show one with its root, or a job of its tree; list its roots."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import READ
from streams.api.rows.paging import PagedList
from streams.api.serving.call import ROW, state_of
from streams.api.serving.listing import listed, page_query
from streams.api.workflows import tree as workflow_tree
from streams.api.workflows.known import known_workflow, shown_node
from streams.serde import job_states
from streams.serde.records import Workflow

WORKFLOW = "/v1/workflows/{workflow_id}"
FILTERS = {"tenant_id": (), "status": job_states.NAMES}
ROOTS = PagedList("roots", (WORKFLOW + "/roots",), workflow_tree.roots_page, FILTERS)


async def workflow_in(request: web.Request) -> Workflow:
    """Return the workflow that a request names by its path, and perhaps by its tenant."""
    id_, tenant_id = request.match_info["workflow_id"], request.query.get("tenant_id")
    return await known_workflow(state_of(request), id_, tenant_id)


calls = listed([ROOTS], known=workflow_in)


@calls.get(WORKFLOW, of=ROW, needs=READ)
async def get_workflow(request: web.Request) -> web.Response:
    """Show a workflow with its root and a page of the root's children."""
    state, query = state_of(request), page_query(request, FILTERS)
    found = await workflow_in(request)
    shown = await state.query(
        lambda db: workflow_tree.workflow_json(db, found, query, state.topology)
    )
    return web.json_response(shown)


@calls.get(WORKFLOW + "/jobs/{job_id}", of=ROW, needs=READ)
async def get_workflow_job(request: web.Request) -> web.Response:
    """Show one job of a workflow's tree as its root is shown, and the jobs above it."""
    state, query = state_of(request), page_query(request, FILTERS)
    found, job_id = await workflow_in(request), request.match_info["job_id"]
    return web.json_response(await shown_node(state, found, job_id, query))
