"""Finds a workflow that a call names, or refuses the call."""

from __future__ import annotations

from streams.api.jobs.known import known_job
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.rows.paging import PageQuery
from streams.api.workflows import table as workflows
from streams.api.workflows import tree as workflow_tree
from streams.api.workflows.table import holds
from streams.serde.records import Workflow


async def known_workflow(state: AppState, id_: str, tenant_id: str | None) -> Workflow:
    """Return a workflow; refuse with 404, or 409 if several tenants have one of its id."""
    found = await state.query(lambda db: workflows.workflows(db, id_, tenant_id))
    if len(found) > 1:
        tenants = ", ".join(sorted(each.tenant_id for each in found))
        told = f"{len(found)} workflows have the id {id_!r}: name one of their tenants by "
        raise Refusal(409, "workflow-ambiguous", f"{told}tenant_id: {tenants}")
    if not found:
        all_ = get("workflows")
        hint = "it was never begun, is not shown yet, or has been purged since it ended"
        raise unknown("workflow", id_, f"{hint}: compare the id with {all_}", all_)
    return found[0]


async def shown_node(state: AppState, found: Workflow, job_id: str, query: PageQuery) -> Json:
    """Return one job of a workflow's tree as its root is shown, and the jobs above it.

    Raises:
        Refusal: 404, there is no such job, or it is not in this workflow.
    """
    job = await known_job(state, job_id)
    if not holds(found, job):
        its = get("workflows", found.workflow_id)
        told = f"it is not in workflow {found.workflow_id}: {its} shows what is in that one"
        raise unknown("job", job.job_id, told, its)
    most = state.topology.workflows.most_levels
    node = await state.query(lambda db: workflow_tree.node_json(db, job, query, state.topology))
    path = await state.query(lambda db: workflow_tree.above(db, job, most))
    whose = {"workflow_id": found.workflow_id, "tenant_id": found.tenant_id}
    return {**whose, **node, "above": path}
