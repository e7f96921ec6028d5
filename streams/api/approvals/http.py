"""Approvals: show what jobs ask of people, approve and reject."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import APPROVE, READ
from streams.api.approvals import decision
from streams.api.approvals.decision_request import ApproveRequest, DecisionRequest
from streams.api.approvals.table import approval_json, details_json
from streams.api.serving.call import ROW, Calls, state_of
from streams.api.serving.request_body import read_body

calls = Calls()


@calls.get("/v1/approvals/{approval_id}", of=ROW, needs=READ)
async def get_approval(request: web.Request) -> web.Response:
    """Show an approval with its votes, its edit and the digests of its arguments."""
    id_ = request.match_info["approval_id"]
    shown = await decision.known_approval(state_of(request), id_)
    return web.json_response({**approval_json(shown), "details": details_json(shown)})


@calls.post(
    "/v1/approvals/{approval_id}/approve",
    of=ROW,
    needs=APPROVE,
    verb="approval.approve",
    is_keyed=True,
    body=ApproveRequest,
)
async def approve(request: web.Request) -> web.Response:
    """Approve what a job asks for, with changed arguments if an edit is given."""
    state, id_ = state_of(request), request.match_info["approval_id"]
    wanted = await read_body(request, ApproveRequest)
    return web.json_response(await decision.approve(state, id_, wanted), status=202)


@calls.post(
    "/v1/approvals/{approval_id}/reject",
    of=ROW,
    needs=APPROVE,
    verb="approval.reject",
    is_keyed=True,
    body=DecisionRequest,
)
async def reject(request: web.Request) -> web.Response:
    """Reject what a job asks for."""
    state, id_ = state_of(request), request.match_info["approval_id"]
    wanted = await read_body(request, DecisionRequest)
    return web.json_response(await decision.reject(state, id_, wanted), status=202)
