"""Calls on workflows: show one with its root, a job of its tree, and its roots."""

from __future__ import annotations

from aiohttp import web

from streams.api.jobs.known import known_job
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.state import STATE
from streams.api.workflows import table as workflows
from streams.api.workflows import tree as workflow_tree
from streams.api.workflows.table import holds
from streams.serde import job_states
from streams.serde.records import Workflow

routes = web.RouteTableDef()

WORKFLOW = "/v1/workflows/{workflow_id}"
FILTERS = {"tenant_id": (), "status": job_states.NAMES}


@routes.get(WORKFLOW)
async def get_workflow(request: web.Request) -> web.Response:
    """Show a workflow with its root and a page of the root's children."""
    state, query = request.app[STATE], page_query(request, FILTERS)
    found = await known_workflow(state, request)
    shown = await state.query(
        lambda db: workflow_tree.workflow_json(db, found, query, state.topology)
    )
    return web.json_response(shown)


@routes.get(WORKFLOW + "/jobs/{job_id}")
async def get_workflow_job(request: web.Request) -> web.Response:
    """Show one job of a workflow's tree as its root is shown, and the jobs above it."""
    state, query = request.app[STATE], page_query(request, FILTERS)
    found = await known_workflow(state, request)
    job = await known_job(state, request.match_info["job_id"])
    if not holds(found, job):
        told = f"GET /v1/workflows/{found.workflow_id} shows what is in that one"
        raise unknown("job", job.job_id, f"it is not in workflow {found.workflow_id}: {told}")
    most = state.topology.workflows.most_levels
    node = await state.query(lambda db: workflow_tree.node_json(db, job, query, state.topology))
    path = await state.query(lambda db: workflow_tree.above(db, job, most))
    whose = {"workflow_id": found.workflow_id, "tenant_id": found.tenant_id}
    return web.json_response({**whose, **node, "above": path})


@routes.get(WORKFLOW + "/roots")
async def list_roots(request: web.Request) -> web.Response:
    """List the jobs of a workflow that no other job asked for, oldest first."""
    state, query = request.app[STATE], page_query(request, FILTERS)
    found = await known_workflow(state, request)
    page = await state.query(lambda db: workflow_tree.roots_page(db, found, query))
    return list_answer("roots", page)


async def known_workflow(state: AppState, request: web.Request) -> Workflow:
    """Return the workflow that a request names; refuse with 404, or 409 if several have its id."""
    id_, tenant_id = request.match_info["workflow_id"], request.query.get("tenant_id")
    found = await state.query(lambda db: workflows.workflows(db, id_, tenant_id))
    if len(found) > 1:
        tenants = ", ".join(sorted(each.tenant_id for each in found))
        told = f"{len(found)} workflows have the id {id_!r}: name one of their tenants by "
        raise Refusal(409, "workflow-ambiguous", f"{told}tenant_id: {tenants}")
    if not found:
        hint = "it was never begun, is not shown yet, or has been purged since it ended"
        raise unknown("workflow", id_, f"{hint}: compare the id with GET /v1/workflows")
    return found[0]
